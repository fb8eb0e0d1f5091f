"""Parameters and results of the functions of ``nki.language``, for their docstrings."""

from __future__ import annotations

__all__ = ["EXAMPLES", "PARAMETERS", "RAISES", "RESULTS", "VERSIONS"]

PARAMETERS: dict[str, str] = {
    "address": "(partition, byte in the partition) for SBUF and PSUM; None lets the tracer choose",
    "axes": "an axis or several; None for all",
    "axis": "the axis, or axes, counted from 0; 0 is the partition dimension",
    "block_shape": "tiles of a block, a number for each dimension of tile_shape",
    "body_fun": "the body, called once while tracing, with a register",
    "buffer": "the memory: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm",
    "compute_dtype": "the dtype of what is in between; float32 when None",
    "condition": "a tile; elements other than 0 select x",
    "constant": "a NumPy array, or the path of a .npy file",
    "data": "a tile in SBUF",
    "dst": "the tensor written; None for a new one",
    "dtype": "of the result, such as nl.bfloat16; that of the operand when None",
    "element_shape": "the elements in each dimension, a tuple",
    "epsilon": "what is added to the mean square",
    "fill_value": "the number in every element",
    "indices": "a tile of uint32, indices into a partition's elements",
    "init": "a register; 0 ends the loop before it begins",
    "lower": "the first value of the counter: an integer or a register",
    "n": "a number of elements",
    "name": "of the tensor, as files and profiles show it",
    "print_prefix": "what is printed before the values",
    "rate": "the probability of zero, 0 to 1",
    "seed": "a tile of one 32-bit value",
    "shape": "the extents; on chip the first one is the partitions, at most 128",
    "size": "how many elements, an integer",
    "src": "a tensor in HBM, two-dimensional for a transpose",
    "source": "a tensor, or a grid of tiles or blocks",
    "start": "the first value (the end, when it is the only argument)",
    "step": "a positive integer",
    "stop": "the value that is no longer reached",
    "tensor": "a tensor of any memory",
    "tile_shape": "the elements of a tile, a tuple for the last dimensions of the tensor",
    "transpose_axes": "(1, 0), (2, 1, 0) or (3, 1, 2, 0), by rank; None keeps the order",
    "transpose_x": "x is (K, M) already",
    "upper": "the value that is no longer reached: an integer or a register",
    "value": "a tile in SBUF",
    "w": "the weights, a tile or a tensor",
    "x": "a tile in SBUF or PSUM",
    "y": "a tile in SBUF or PSUM, or a number",
    "keepdims": "reduced axes stay with extent 1",
}

RESULTS: dict[str, str] = {
    "ndarray": "NkiTensor: the tensor; its contents are undefined",
    "ds": "DynamicSlice: what an index takes",
    "program_id": "int: the index",
    "num_programs": "int: the number",
    "program_ndim": "int: the number",
    "static_range": "range: of integers",
    "affine_range": "range: of integers",
    "sequential_range": "range: of integers",
    "dynamic_range": "an iterator over one register, the counter, which cannot be written",
    "no_reorder": "a context manager",
    **dict.fromkeys(("is_hbm", "is_on_chip", "is_psum", "is_sbuf"), "bool"),
    **dict.fromkeys(
        ("store", "device_print", "fori_loop", "while_loop", "random_seed"), "None"
    ),
    **dict.fromkeys(
        ("zeros", "ones", "full", "zeros_like", "rand", "shared_constant",
         "shared_identity_matrix"), "NkiTensor: the new tensor"
    ),
    **dict.fromkeys(("load", "load_transpose2d"), "NkiTensor: the new tile in SBUF"),
    **dict.fromkeys(("transpose", "matmul"), "NkiTensor: a new tile in PSUM"),
    "expand_dims": "NkiTensor: the view",
    "empty_like": "NkiTensor, or the type of the grid: new",
    **dict.fromkeys(("tiles", "alloc_tiles"), "NkiTileGrid: the grid"),
    **dict.fromkeys(("blocks", "alloc_blocks"), "NkiBlockGrid: the grid"),
    **dict.fromkeys(
        ("broadcast_to", "dropout", "gather_flattened", "rms_norm", "softmax", "where", "var"),
        "NkiTensor: a new tile in SBUF",
    ),
}  # fmt: skip

_TILES = "NKI-OPERAND (no tile on chip), NKI-SHAPE, NKI-CAPACITY"
_NEW = "NKI-PARTITION, NKI-CAPACITY, NKI-BUFFER, NKI-DTYPE, NKI-SHAPE"
RAISES: dict[str, str] = {
    **dict.fromkeys(("program_id", "num_programs"), "NKI-GRID"),
    **dict.fromkeys(
        ("static_range", "affine_range", "sequential_range"), "NKI-REGISTER, NKI-REGISTER-VALUE"
    ),
    **dict.fromkeys(
        ("dynamic_range", "fori_loop"), "NKI-LOOP-STEP, NKI-REGISTER, NKI-NO-REORDER"
    ),
    **dict.fromkeys(("tiles", "blocks"), "NKI-TILE-GRID"),
    **dict.fromkeys(("alloc_tiles", "alloc_blocks", "empty_like"), f"NKI-TILE-GRID, {_NEW}"),
    "while_loop": "NKI-REGISTER, NKI-NO-REORDER",
    "no_reorder": "",
    "program_ndim": "",
    "ds": "",
    **dict.fromkeys(("is_hbm", "is_on_chip", "is_psum", "is_sbuf"), ""),
    "device_print": "NKI-OPERAND",
    "expand_dims": "NKI-DIM, NKI-PARTITION-DIM",
    "shared_constant": "NKI-DTYPE",
    "random_seed": "NKI-SHAPE",
    "store": "NKI-SHAPE, NKI-BUFFER",
    **dict.fromkeys(
        ("ndarray", "zeros", "ones", "full", "zeros_like", "rand", "load",
         "load_transpose2d", "shared_identity_matrix"), _NEW
    ),
    **dict.fromkeys(
        ("broadcast_to", "dropout", "gather_flattened", "rms_norm", "softmax", "where", "var",
         "transpose", "matmul"), _TILES
    ),
}  # fmt: skip

VERSIONS: dict[str, str] = dict.fromkeys(
    ("alloc_blocks", "alloc_tiles", "blocks", "empty_like", "tiles"), "0.7.0"
)
"""The version whose documents state a function, where that is not 0.6.0."""

_EXAMPLES = """
# tiles
grid = nl.tiles(x, tile_shape=(64, 200))
for j in range(grid.shape[1]):
    tile = nl.ndarray(grid[0, j].element_shape, x.dtype)
    nisa.dma_copy(dst=tile, src=grid[0, j].data)

# blocks
grid = nl.blocks(x, tile_shape=(64, 128), block_shape=(2, 2))
assert grid.shape == (1, 2) and nl.tiles(grid[0, 1]).shape == (2, 2)

# alloc_tiles
grid = nl.alloc_tiles(tile_shape=(128, 128), element_shape=(256, 500), buffer=nl.sbuf, dtype=x.dtype)
nisa.dma_copy(dst=grid[1, 0].data, src=x[:, 0:128])

# alloc_blocks
grid = nl.alloc_blocks(
    tile_shape=(64, 128), block_shape=(2, 2), element_shape=(128, 512), buffer=nl.private_hbm,
    dtype=x.dtype,
)
nisa.dma_copy(dst=grid[0, 1].data, src=a[:, 256:512])

# ndarray
tile = nl.ndarray((128, 64), nl.bfloat16, buffer=nl.sbuf)

# zeros
tile = nl.zeros((128, 64), nl.float32)

# ones
tile = nl.ones((128, 64), nl.float32)

# full
tile = nl.full((128, 64), 0.5, nl.float32)

# zeros_like
tile = nl.zeros_like(a)

# empty_like
tile = nl.empty_like(a, dtype=nl.bfloat16)

# rand
tile = nl.rand((128, 64), nl.float32)

# random_seed
nl.random_seed(nl.full((1, 1), 7, nl.uint32))

# load
tile = nl.load(x[0:64, :])

# load_transpose2d
short = nl.ndarray((128, 64), nl.bfloat16, buffer=nl.private_hbm)
nl.store(short, nl.full((128, 64), 1.0, nl.bfloat16))
tile = nl.load_transpose2d(short)

# store
whole = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
nl.store(whole, a)

# shared_constant
table = nl.shared_constant(np.arange(8, dtype=np.float32))

# shared_identity_matrix
eye = nl.shared_identity_matrix(128, dtype=nl.bfloat16)

# softmax
weights = nl.softmax(a, axis=1)

# rms_norm
scaled = nl.rms_norm(a, b, axis=1, n=512)

# where
positive = nl.where(nl.greater(a, 0.0), a, b)

# dropout
fewer = nl.dropout(a, 0.1)

# expand_dims
three = nl.expand_dims(a, 1)

# broadcast_to
wide = nl.broadcast_to(column, (128, 512))

# transpose
turned = nl.transpose(a[:, 0:128])

# matmul
sums = nl.matmul(a[:, 0:128], b)

# gather_flattened
indices = nl.zeros((128, 8), nl.uint32)
few = nl.gather_flattened(a, indices, axis=1)

# var
spread = nl.var(a, axis=1)

# program_id
half = 64 * nl.program_id(0)

# num_programs
cores = nl.num_programs(0)

# program_ndim
axes = nl.program_ndim()

# is_hbm
assert nl.is_hbm(x.buffer)

# is_on_chip
assert nl.is_on_chip(a.buffer)

# is_psum
assert nl.is_psum(product.buffer)

# is_sbuf
assert nl.is_sbuf(a.buffer)

# device_print
nl.device_print("a: ", a[0:1, 0:4])

# static_range
for i in nl.static_range(4):
    nisa.tensor_copy(dst=out[:, nl.ds(i * 128, 128)], src=a[:, nl.ds(i * 128, 128)])

# affine_range
for i in nl.affine_range(4):
    nisa.tensor_copy(dst=out[:, nl.ds(i * 128, 128)], src=a[:, nl.ds(i * 128, 128)])

# sequential_range
for i in nl.sequential_range(4):
    nisa.tensor_copy(dst=out[:, nl.ds(i * 128, 128)], src=a[:, nl.ds(i * 128, 128)])

# dynamic_range
for i in nl.dynamic_range(4):
    nisa.tensor_copy(dst=out[:, nl.ds(i * 128, 128)], src=a[:, nl.ds(i * 128, 128)])

# fori_loop
def body(i):
    nisa.tensor_copy(dst=out[:, nl.ds(i * 128, 128)], src=a[:, nl.ds(i * 128, 128)])

nl.fori_loop(0, 4, body)

# while_loop
def body(left):
    nisa.tensor_scalar(dst=out, data=out, op0=nl.add, operand0=1.0)
    return left - 1

nl.while_loop(nisa.register_alloc(3), body)

# no_reorder
with nl.no_reorder():
    nisa.tensor_copy(dst=out, src=a)
    nisa.tensor_tensor(dst=out, data1=out, data2=b, op=nl.add)

# ds
part = a[:, nl.ds(128, 64)]
"""

EXAMPLES: dict[str, str] = {
    example.partition("\n")[0].strip(): example.partition("\n")[2].strip("\n")
    for example in _EXAMPLES.split("\n# ")[1:]
}
