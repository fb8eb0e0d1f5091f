"""The documented surface of NKI 0.7.0: names, parameters, defaults, enumeration members.

Source: the public stubs nki/api/nki/**/__init__.py of 0.6.0, and the pages of 0.7.0 for what is new.
"""

from __future__ import annotations

from typing import Any

NKI: dict[str, Any] = {
    "functions": {
        "jit": "fn=None, *, compile_config=None, specialization_config=None, **kwargs",
        "simulate": "kernel",
    },
    "constants": [],
    "classes": {},
}

LANGUAGE: dict[str, Any] = {
    "functions": {
        "is_hbm": "buffer",
        "is_on_chip": "buffer",
        "is_psum": "buffer",
        "is_sbuf": "buffer",
        "add": "x, y, dtype=None",
        "subtract": "x, y, dtype=None",
        "multiply": "x, y, dtype=None",
        "divide": "x, y, dtype=None",
        "maximum": "x, y, dtype=None",
        "minimum": "x, y, dtype=None",
        "abs_max": "x, y, dtype=None",
        "abs_min": "x, y, dtype=None",
        "abs": "x, dtype=None",
        "square": "x, dtype=None",
        "power": "x, y, dtype=None",
        "equal": "x, y, dtype=None",
        "not_equal": "x, y, dtype=None",
        "less": "x, y, dtype=None",
        "less_equal": "x, y, dtype=None",
        "greater": "x, y, dtype=None",
        "greater_equal": "x, y, dtype=None",
        "bitwise_and": "x, y, dtype=None",
        "bitwise_or": "x, y, dtype=None",
        "bitwise_xor": "x, y, dtype=None",
        "invert": "x, dtype=None",
        "left_shift": "x, y, dtype=None",
        "right_shift": "x, y, dtype=None",
        "logical_and": "x, y, dtype=None",
        "logical_or": "x, y, dtype=None",
        "logical_xor": "x, y, dtype=None",
        "logical_not": "x, dtype=None",
        "exp": "x, dtype=None",
        "log": "x, dtype=None",
        "sqrt": "x, dtype=None",
        "rsqrt": "x, dtype=None",
        "tanh": "x, dtype=None",
        "sigmoid": "x, dtype=None",
        "relu": "x, dtype=None",
        "gelu": "x, dtype=None",
        "gelu_apprx_sigmoid": "x, dtype=None",
        "gelu_apprx_tanh": "x, dtype=None",
        "gelu_dx": "x, dtype=None",
        "gelu_apprx_sigmoid_dx": "x, dtype=None",
        "silu": "x, dtype=None",
        "silu_dx": "x, dtype=None",
        "softplus": "x, dtype=None",
        "mish": "x, dtype=None",
        "erf": "x, dtype=None",
        "erf_dx": "x, dtype=None",
        "reciprocal": "x, dtype=None",
        "copy": "x, dtype=None",
        "sin": "x, dtype=None",
        "cos": "x, dtype=None",
        "tan": "x, dtype=None",
        "arctan": "x, dtype=None",
        "ceil": "x, dtype=None",
        "floor": "x, dtype=None",
        "trunc": "x, dtype=None",
        "negative": "x, dtype=None",
        "sign": "x, dtype=None",
        "fmod": "x, y, dtype=None",
        "mod": "x, y, dtype=None",
        "sum": "x, axis, dtype=None, keepdims=False",
        "max": "x, axis, dtype=None, keepdims=False",
        "min": "x, axis, dtype=None, keepdims=False",
        "mean": "x, axis, dtype=None, keepdims=False",
        "prod": "x, axis, dtype=None, keepdims=False",
        "var": "x, axis, dtype=None, keepdims=False",
        "all": "x, axis, dtype=None",
        "softmax": "x, axis=-1, dtype=None",
        "rms_norm": "x, w, axis, n, epsilon=1e-06, dtype=None, compute_dtype=None",
        "where": "condition, x, y, dtype=None",
        "dropout": "x, rate, dtype=None",
        "ones": "shape, dtype, buffer=sbuf, name=''",
        "full": "shape, fill_value, dtype, buffer=sbuf, name=''",
        "zeros_like": "x, dtype=None, buffer=None, name=''",
        "empty_like": "x, dtype=None, buffer=None, name='', *, transpose_axes=None, address=None",
        "tiles": "source, *, tile_shape=None",
        "blocks": "source, *, tile_shape=None, block_shape",
        "alloc_tiles": "*, tile_shape, element_shape, buffer, dtype, address=None, name=''",
        "alloc_blocks": "*, tile_shape, block_shape, element_shape, buffer, dtype, address=None, "
        "name=''",
        "random_seed": "seed",
        "expand_dims": "x, axis",
        "broadcast_to": "x, shape, dtype=None",
        "transpose": "x, dtype=None",
        "matmul": "x, y, transpose_x=False",
        "no_reorder": "",
        "load_transpose2d": "src, dtype=None",
        "gather_flattened": "data, indices, axis=0, dtype=None",
        "ds": "start, size",
        "affine_range": "start, stop=None, step=1",
        "sequential_range": "start, stop=None, step=1",
        "static_range": "start, stop=None, step=1",
        "dynamic_range": "start, stop=None, step=1",
        "fori_loop": "lower, upper, body_fun, step=1",
        "while_loop": "init, body_fun",
        "ndarray": "shape, dtype, buffer=sbuf, name='', address=None",
        "zeros": "shape, dtype, buffer=sbuf, name=''",
        "load": "src, dtype=None",
        "store": "dst, value",
        "program_id": "axis=0",
        "num_programs": "axes=0",
        "program_ndim": "",
        "shared_constant": "constant",
        "shared_identity_matrix": "n, dtype=uint8, dst=None",
        "device_print": "print_prefix, tensor",
        "rand": "shape, dtype, buffer=sbuf, name=''",
    },
    "constants": [
        "DType",
        "bool_",
        "int8",
        "int16",
        "int32",
        "uint8",
        "uint16",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "bfloat16",
        "tfloat32",
        "float8_e4m3",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e5m2_x4",
        "float8_e4m3fn_x4",
        "float8_e8m0fnu",
        "float4_e2m1fn_x4",
        "sbuf",
        "psum",
        "hbm",
        "private_hbm",
        "shared_hbm",
        "tile_size",
        "average",
        "prelu",
        "bypass",
    ],
    "classes": {
        "MemoryRegion": {
            "methods": {},
            "members": {
                "sbuf": "sbuf",
                "psum": "psum",
                "private_hbm": "private_hbm",
                "shared_hbm": "shared_hbm",
            },
            "attributes": [],
        },
        "NkiGrid": {"methods": {"__getitem__": "self, key"}, "members": {}, "attributes": []},
        "NkiTileGrid": {"methods": {"__getitem__": "self, key"}, "members": {}, "attributes": []},
        "NkiBlockGrid": {"methods": {"__getitem__": "self, key"}, "members": {}, "attributes": []},
        "NKIObject": {"methods": {"__init__": "self, **kwargs"}, "members": {}, "attributes": []},
        "NkiTensor": {
            "methods": {
                "__init__": "self, shape, dtype, storage, buffer=sbuf, name='', address=None",
                "is_contiguous": "self",
                "get_pattern": "self",
                "is_indirect": "self",
                "__getitem__": "self, key",
                "permute": "self, dims",
                "broadcast": "self, dim, size",
                "expand_dim": "self, dim",
                "squeeze_dim": "self, dim",
                "reshape_dim": "self, dim, shape",
                "flatten_dims": "self, start_dim, end_dim",
                "reshape": "self, shape",
                "rearrange": "self, src_pattern, dst_pattern, fixed_sizes=None",
                "__setitem__": "self, key, value",
                "slice": "self, dim, start, end, step=1",
                "select": "self, dim, index",
                "vector_select": "self, dim, vector_offset",
                "ap": "self, pattern, offset=None, scalar_offset=None, "
                "vector_offset=None, indirect_dim=0, dtype=None",
                "view": "self, dtype",
                "indirect": "self, index, num_elem=None",
            },
            "members": {},
            "attributes": [
                "shape",
                "strides",
                "offset",
                "name",
                "dtype",
                "buffer",
                "ndim",
                "size",
                "reinterpret_cast",
            ],
        },
        "_TileSize": {
            "methods": {
                "psum_num_banks": "self",
                "sbuf_size_bytes": "self",
                "sbuf_fmax": "self",
                "sbuf_fmax_bytes": "self",
                "total_available_sbuf_size": "self",
            },
            "members": {},
            "attributes": [
                "pmax",
                "psum_fmax",
                "psum_bank_fmax",
                "psum_bank_fmax_bytes",
                "gemm_stationary_fmax",
                "gemm_moving_fmax",
                "bn_stats_fmax",
                "psum_min_align",
                "sbuf_min_align",
            ],
        },
    },
}

ISA: dict[str, Any] = {
    "functions": {
        "get_nc_sub_version": "",
        "get_nc_version": "",
        "dma_copy": "dst, src, priority=None, oob_mode=oob_mode.error, "
        "dge_mode=dge_mode.unknown, engine=engine.unknown, name=None",
        "tensor_copy": "dst, src, engine=engine.unknown, name=None",
        "memset": "dst, value, engine=engine.unknown, name=None",
        "tensor_copy_predicated": "dst, src, predicate, reverse_pred=False, name=None",
        "nc_matmul": "dst, stationary, moving, is_stationary_onezero=False, "
        "is_moving_onezero=False, is_transpose=False, accumulate=None, "
        "tile_position=(), tile_size=(), perf_mode=matmul_perf_mode.none, "
        "name=None",
        "nc_matmul_mx": "dst, stationary, moving, stationary_scale, moving_scale, "
        "tile_position=None, tile_size=None, accumulate=None, name=None",
        "nc_transpose": "dst, data, engine=engine.unknown, name=None",
        "dma_transpose": "dst, src, axes=None, priority=None, dge_mode=dge_mode.unknown, "
        "oob_mode=oob_mode.error, name=None",
        "tensor_tensor": "dst, data1, data2, op, engine=engine.unknown, name=None",
        "tensor_scalar": "dst, data, op0, operand0, reverse0=False, op1=None, "
        "operand1=None, reverse1=False, engine=engine.unknown, name=None",
        "tensor_reduce": "dst, op, data, axis, negate=False, keepdims=False, name=None",
        "tensor_partition_reduce": "dst, op, data, name=None",
        "tensor_scalar_cumulative": "dst, src, op0, op1, imm0, imm1=None, "
        "reduce_cmd=reduce_cmd.reset_reduce, name=None",
        "activation": "dst, op, data, bias=None, scale=1.0, reduce_op=None, "
        "reduce_res=None, reduce_cmd=reduce_cmd.idle, engine=engine.scalar, name=None",
        "activation_reduce": "dst, op, data, reduce_op, reduce_res, bias=None, scale=1.0, "
        "name=None",
        "activate2": "dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, "
        "reverse1=False, reduce_op=None, reduce_res=None, "
        "reduce_cmd=reduce_cmd.idle, engine=engine.scalar, name=None",
        "iota": "dst, pattern, offset=0, channel_multiplier=0, name=None",
        "affine_select": "dst, pattern, channel_multiplier, on_true_tile, on_false_value, "
        "cmp_op=equal, offset=0, name=None",
        "local_gather": "dst, src_buffer, index, num_elem_per_idx=1, "
        "num_valid_indices=None, name=None",
        "nc_n_gather": "dst, data, indices, name=None",
        "bn_stats": "dst, data, name=None",
        "bn_aggr": "dst, data, name=None",
        "tensor_tensor_scan": "dst, data0, data1, initial, op0, op1, reverse0=False, "
        "reverse1=False, name=None",
        "nc_stream_shuffle": "dst, src, shuffle_mask, name=None",
        "rng": "dst, engine=engine.vector, name=None",
        "dropout": "dst, data, prob, name=None",
        "set_rng_seed": "src_seeds, name=None",
        "rand_set_state": "src_seeds, engine=engine.gpsimd, name=None",
        "rand_get_state": "dst, engine=engine.gpsimd, name=None",
        "rand2": "dst, min, max, name=None",
        "exponential": "dst, src, max_value=0.0, reduce_res=None, "
        "reduce_cmd=reduce_cmd.idle, reduce_init=0.0, name=None",
        "reciprocal": "dst, data, name=None",
        "max8": "dst, src, name=None",
        "sequence_bounds": "dst, segment_ids, name=None",
        "scalar_tensor_tensor": "dst, data, op0, operand0, op1, operand1, reverse0=False, "
        "reverse1=False, name=None",
        "tensor_scalar_reduce": "dst, data, op0, operand0, reduce_op, reduce_res=None, "
        "reverse0=False, reduce_cmd=reduce_cmd.reset_reduce, "
        "reduce_init=None, reduce_res_negate=False, name=None",
        "core_barrier": "data, cores, engine=engine.gpsimd, name=None",
        "dma_compute": "dst, srcs, reduce_op, scales=None, unique_indices=True, "
        "oob_mode=oob_mode.error, name=None",
        "quantize_mx": "dst, src, dst_scale, name=None",
        "range_select": "dst, on_true_tile, comp_op0, comp_op1, bound0, bound1, "
        "reduce_cmd=reduce_cmd.reset_reduce, reduce_res=None, "
        "reduce_op=maximum, range_start=0, on_false_value=..., name=None",
        "select_reduce": "dst, predicate, on_true, on_false, reduce_res=None, "
        "reduce_cmd=reduce_cmd.idle, reduce_op=maximum, "
        "reverse_pred=False, name=None",
        "sendrecv_compute": "src, dst, send_to_rank, recv_from_rank, reduce_op, name=None",
        "sendrecv": "src, dst, send_to_rank, recv_from_rank, pipe_id, "
        "dma_engine=dma_engine.dma, name=None",
        "register_alloc": "x=None",
        "register_move": "dst, src",
        "register_load": "dst, src",
        "scalar_load": "src",
        "scalar_store": "dst, value",
        "register_store": "dst, src",
        "nc_find_index8": "dst, data, vals, name=None",
        "nc_match_replace8": "dst, data, vals, imm, dst_idx=None, name=None",
        "nonzero_with_count": "dst, src, index_offset=0, padding_val=-1, name=None",
        "topk": "val_dst, idx_dst, src, n, name=None",
    },
    "constants": [
        "tensor_engine",
        "vector_engine",
        "scalar_engine",
        "gpsimd_engine",
        "unknown_engine",
    ],
    "classes": {
        "engine": {
            "methods": {},
            "members": {
                "tensor": 1,
                "vector": 5,
                "scalar": 2,
                "gpsimd": 3,
                "dma": 4,
                "sync": 6,
                "unknown": 0,
            },
            "attributes": [],
        },
        "reduce_cmd": {
            "methods": {},
            "members": {"idle": 0, "reset": 1, "reduce": 2, "reset_reduce": 3, "load_reduce": 4},
            "attributes": [],
        },
        "dge_mode": {
            "methods": {},
            "members": {"unknown": 0, "swdge": 1, "hwdge": 2, "none": 3},
            "attributes": [],
        },
        "oob_mode": {"methods": {}, "members": {"error": 0, "skip": 1}, "attributes": []},
        "matmul_perf_mode": {
            "methods": {},
            "members": {"none": "none", "double_row": "double_row"},
            "attributes": [],
        },
        "nc_version": {
            "methods": {},
            "members": {"gen2": 2, "gen3": 3, "gen4": 4},
            "attributes": [],
        },
        "dma_engine": {"methods": {}, "members": {"dma": 1, "gpsimd_dma": 2}, "attributes": []},
        "NkiInstruction": {
            "methods": {"__init__": "self, handle", "depends_on": "self, *producers"},
            "members": {},
            "attributes": [],
        },
        "NkiValidationError": {"methods": {}, "members": {}, "attributes": []},
        "NkiScalar": {
            "methods": {"__init__": "self, state, dtype=None, is_comparison=False"},
            "members": {},
            "attributes": ["dtype"],
        },
        "VirtualRegister": {
            "methods": {"__init__": "self, state=None, frozen=False"},
            "members": {},
            "attributes": [],
        },
    },
}

COLLECTIVES: dict[str, Any] = {
    "functions": {
        "all_reduce": "srcs, dsts, replica_group, op, priority=None, name=None",
        "all_gather": "srcs, dsts, replica_group, collective_dim, priority=None, name=None",
        "all_gather_v": "srcs, dsts, replica_group, metadata_tensor, "
        "recv_counts_known=False, has_rdispls=False, priority=None, "
        "name=None",
        "reduce_scatter": "srcs, dsts, replica_group, collective_dim, op, priority=None, name=None",
        "all_to_all": "srcs, dsts, replica_group, collective_dim, priority=None, name=None",
        "all_to_all_v": "srcs, dsts, replica_group, metadata_tensor, "
        "recv_counts_known=False, has_rdispls=False, priority=None, "
        "name=None",
        "all_gather_v_prepare": "srcs, dsts, replica_group, metadata_tensor, "
        "recv_counts_known=False, has_rdispls=False, priority=None, "
        "name=None",
        "all_gather_v_trigger": "prepare_instr, name=None",
        "all_to_all_v_prepare": "srcs, dsts, replica_group, metadata_tensor, "
        "recv_counts_known=False, has_rdispls=False, priority=None, "
        "name=None",
        "all_to_all_v_trigger": "prepare_instr, name=None",
        "collective_permute": "srcs, dsts, source_target_pairs, priority=None, name=None",
        "collective_permute_implicit": "srcs_by_channel, dsts_by_channel, replica_group, "
        "channel_ids=[0], priority=None, name=None",
        "collective_permute_implicit_reduce": "srcs0_by_channel, srcs1_by_channel, "
        "dsts_by_channel, replica_group, op, "
        "channel_ids=[0], priority=None, name=None",
        "collective_permute_implicit_current_processing_rank_id": "iteration_id, "
        "replica_group, "
        "channel_id=0, name=None",
        "rank_id": "name=None",
    },
    "constants": [],
    "classes": {
        "ReplicaGroup": {
            "methods": {"from_partition_op": "world_size, op, operand"},
            "members": {},
            "attributes": [],
        },
        "rg_partition_op": {
            "methods": {},
            "members": {"bitwise_and": "bitwise_and", "div": "div", "mod": "mod"},
            "attributes": [],
        },
    },
}
