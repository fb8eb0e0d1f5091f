"""Tables of the vendor's profile schema 7.4.0 that an estimate has data for.

Names, types, units and order of fields are those of its schema reference; the descriptions of tables
are ours.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TABLES", "VERSION", "Field", "Table"]

VERSION = "7.4.0"


class Field(NamedTuple):
    """A column: its type is ``i`` (int64), ``f`` (float64), ``s`` (string) or ``b`` (boolean)."""

    name: str
    type: str
    unit: str
    required: bool


class Table(NamedTuple):
    """A table and its columns in order."""

    name: str
    description: str
    fields: tuple[Field, ...]


_UNITS = {
    "-": "", "ns": "nanoseconds", "s": "seconds", "B": "bytes", "%": "percent",
    "B/s": "bytes_per_second", "GHz": "gigahertz", "cycles": "cycles", "flops": "flops",
}  # fmt: skip


def _table(name: str, description: str, fields: str) -> Table:
    """Fields are written ``name:type:unit``; ``!`` in front of a name that is required."""
    table_fields = [
        Field(name.removeprefix("!"), kind, _UNITS[unit], name.startswith("!"))
        for name, kind, unit in (word.split(":") for word in fields.split())
    ]
    return Table(name, description, tuple(table_fields))


_ALL = (
    _table("Metadata", "The run: clocks and sizes of the machine.", """
        !profile_schema_version:s:- !ntff_version:i:- !num_physical_cores:i:-
        !vnc_enabled:b:- !first_hw_timestamp:i:ns !last_hw_timestamp:i:ns !first_ts:s:-
        !last_ts:s:- !dma_ddr_bandwidth:f:B/s !num_dma_engines_per_neuroncore:i:-
        !hbm_ddr_bandwidth:f:B/s !tensor_engine_num_rows:i:- !tensor_engine_num_cols:i:-
        !tensor_engine_clock_freq:f:GHz !vector_engine_clock_freq:f:GHz
        !vector_engine_num_channels:i:- !scalar_engine_clock_freq:f:GHz
        !scalar_engine_num_channels:i:- !gpsimd_engine_clock_freq:f:GHz
        !gpsimd_engine_num_channels:i:- !neuroncore_clock_freq:f:GHz !ticks_per_nanosec:i:-
        instance_type:s:- runtime_version:s:- collectives_version:s:- driver_version:s:-
        explorer_version:s:- compiler_version:s:- neuroncore_idx:i:- neuron_device_idx:i:-
        ultraserver_id:i:- ultraserver_type:s:- ultraserver_size:i:-
        ultraserver_instance_index:i:- s3_bucket_path:s:- profile_name:s:-
        explorer_build_time:s:- is_simulation:b:-
    """),
    _table("Summary", "Totals and utilisation.", """
        total_time:f:s neuroncore_cycle_count:i:cycles model_flops:i:flops
        hardware_flops:i:flops transpose_flops:i:flops adjusted_hardware_flops:i:flops
        adjusted_transpose_flops:i:flops mm_arithmetic_intensity:f:-
        peak_flops_bandwidth_ratio:f:- trace_count:i:- event_count:i:- total_row_count:i:-
        dma_active_cycles:i:cycles dma_active_time:f:s dma_active_time_percent:f:%
        static_dma_active_time:f:s dynamic_dma_active_time_percent:f:%
        static_dma_active_time_percent:f:% dma_transfer_average_bytes:f:B
        dma_packet_time:f:s dma_transfer_time:f:s dma_transfer_count:i:-
        dma_transfer_total_bytes:i:B dma_queue_count:i:- inputs_and_weights_size_bytes:i:B
        inputs_outputs_weights_size_bytes:i:B weight_size_bytes:i:B
        static_dma_packet_count:i:- static_dma_size:i:B dynamic_dma_packet_percent:f:%
        static_dma_packet_percent:f:% dynamic_dma_size_percent:f:%
        static_dma_size_percent:f:% mbu_estimated_percent:f:% mbu_min_read_util_percent:f:%
        hbm_write_bytes:i:B hbm_read_bytes:i:B sbuf_write_bytes:i:B sbuf_read_bytes:i:B
        spill_save_bytes:i:B spill_reload_bytes:i:B psum_write_bytes:i:B psum_read_bytes:i:B
        psum_read_sbuf_write_count:i:- psum_read_sbuf_write_bytes:i:B input_queue_bytes:i:B
        output_queue_bytes:i:B weight_queue_bytes:i:B software_dynamic_dma_active_time:f:s
        software_dynamic_dma_active_time_percent:f:% software_dynamic_dma_packet_count:i:-
        software_dynamic_dma_size:i:B software_dynamic_dma_packet_percent:f:%
        software_dynamic_dma_size_percent:f:% hardware_dynamic_dma_active_time:f:s
        hardware_dynamic_dma_active_time_percent:f:% hardware_dynamic_dma_packet_count:i:-
        hardware_dynamic_dma_size:i:B hardware_dynamic_dma_packet_percent:f:%
        hardware_dynamic_dma_size_percent:f:% tensor_engine_instruction_time:f:s
        tensor_engine_active_time:f:s tensor_engine_active_time_percent:f:%
        tensor_engine_instruction_count:i:- matmul_instruction_count:i:-
        mfu_estimated_percent:f:% mfu_max_achievable_estimated_percent:f:%
        mfu_hlo_estimated_percent:f:% mfu_hlo_max_achievable_estimated_percent:f:%
        mfu_inst_estimated_percent:f:% mfu_inst_max_achievable_estimated_percent:f:%
        hfu_estimated_percent:f:% vector_engine_instruction_time:f:s
        vector_engine_active_time:f:s vector_engine_active_time_percent:f:%
        vector_engine_instruction_count:i:- scalar_engine_instruction_time:f:s
        scalar_engine_active_time:f:s scalar_engine_active_time_percent:f:%
        scalar_engine_instruction_count:i:- activate_instruction_time:f:s
        activate_instruction_count:i:- sync_engine_instruction_time:f:s
        sync_engine_active_time:f:s sync_engine_active_time_percent:f:%
        sync_engine_instruction_count:i:- gpsimd_engine_instruction_time:f:s
        gpsimd_engine_active_time:f:s gpsimd_engine_active_time_percent:f:%
        gpsimd_engine_instruction_count:i:- cc_op_time:f:s cc_op_active_time:f:s
        cc_op_active_time_percent:f:% cc_op_count:i:- cc_cores_instruction_time:f:s
        cc_cores_instruction_active_time:f:s cc_cores_instruction_active_time_percent:f:%
        cc_cores_instruction_count:i:- total_exec_time:f:s total_active_time:f:s
        total_active_time_percent:f:%
    """),
    _table("Instruction", "Instructions on their engines.", """
        !start_ts:i:ns !end_ts:i:ns !duration_ns:i:ns !engine:s:- timeline_track:s:-
        pcore_idx:i:- !opcode:s:- !operands:s:- compiler_opcode:s:- compiler_operands:s:-
        !id:i:- !pc:i:- compiler_pc:i:- penguin_id:s:- raw_penguin_id:i:- !bir_id:s:-
        raw_bir_id:i:- bir_instruction_name:s:- kernel_instruction_name:s:- crc_in:i:-
        crc_out:i:- evt_wait_time_ns:i:ns hlo_attrs:s:- hlo_name:s:- raw_hlo_id:i:-
        raw_framework_id:i:- layer:s:- stack_frame_ids:s:- nki_source_location:s:-
        bir_debug_info_source_location:s:- dma_trigger_start_ts:i:- dma_trigger_end_ts:i:-
        dma_wait_time_ns:i:ns instruction_chain:s:- hbm_read_bytes:i:- hbm_write_bytes:i:-
        sbuf_read_bytes:i:- sbuf_write_bytes:i:- spill_save_bytes:i:- spill_reload_bytes:i:-
        psum_read_bytes:i:- psum_write_bytes:i:- psum_read_sbuf_write_bytes:i:-
        input_queue_bytes:i:- output_queue_bytes:i:- weight_queue_bytes:i:-
        performance_mode:s:- tensor_instruction_type:s:- tensor_elements:i:- raw_flops:i:-
        adjusted_flops:i:- tensor_elements_transpose:i:- flops_transpose:i:-
        adjusted_flops_transpose:i:- scalar_activation_fn:s:-
    """),
    _table("AssemblyInstruction", "Instructions as the program has them.", """
        !instruction_id:i:- !compiler_opcode:s:- !compiler_operands:s:- !compiler_pc:i:-
    """),
    _table("ActiveTime", "When each engine was busy.", """
        !start_ts:i:ns !end_ts:i:ns !engine:s:- !pcore_idx:i:- !duration_ns:i:ns
    """),
    _table("OpcodeSummary", "Time by engine and opcode.", """
        !engine:s:- !opcode:s:- !instruction_count:i:- !instruction_time_ns:i:ns
        !active_time_ns:i:ns !active_time_percent:f:-
    """),
    _table("DmaPacketAggregated", "Transfers.", """
        !start_ts:i:ns !end_ts:i:ns !duration_ns:i:ns !id:i:- pcore_idx:i:- !block_id:i:-
        !queue_idx:i:- !queue_name:s:- queue_type:s:- !op:s:- !variable:s:- !read_bytes:i:B
        !write_bytes:i:B !transfer_bytes:i:B !throughput:f:B/s !source:s:- !dest:s:-
        !semaphore_id:s:- modular_flow_function:s:- !read_sbuf_partitions:s:-
        !read_num_sbuf_partitions:i:- !read_shape:s:- !read_offset:s:- !read_steps:s:-
        !write_sbuf_partitions:s:- !write_num_sbuf_partitions:i:- !write_shape:s:-
        !write_offset:s:- !write_steps:s:- is_transpose_mode:b:- transpose_element_size:s:-
        transpose_shape:s:- transpose_from_shape:s:- transpose_to_shape:s:-
        transpose_unroll_factor:s:- trigger:i:- completion:i:-
    """),
    _table("DmaUsage", "Throughput of the DMA engines over time.", """
        !timestamp:i:ns !current_throughput:f:B/s !total_transfer_bytes:i:B pcore_idx:i:-
    """),
    _table("HbmUsage", "Throughput of transfers that touch HBM over time.", """
        !timestamp:i:ns !current_throughput:f:B/s !total_transfer_bytes:i:B pcore_idx:i:-
    """),
    _table("PendingDma", "Transfers that were issued and have not arrived.", """
        !timestamp:i:ns !value:i:- pcore_idx:i:-
    """),
    _table("TensorInfo", "Inputs, outputs and constants, and how often they are loaded.", """
        variable_name:s:- type:s:- format:s:- shape:s:- size:i:B node:i:- pcore_idx:i:-
        load_to_sbuf_avg_size_bytes:i:- load_to_sbuf_total_size_bytes:i:-
        load_to_sbuf_dma_count:i:- load_to_sbuf_repeat_factor:f:-
    """),
    _table("Flow", "What an instruction or a transfer waited for.", """
        !in_id:i:- !out_id:i:- !in_table:s:- !out_table:s:- dependency_type:s:-
        gap_time:i:ns
    """),
    _table("KernelInstructions", "The source line of instructions.", """
        !kernel_instruction_name:s:- stack_frame_id:i:- stack_frame_depth:i:-
        iteration_variables_id:i:- iteration_variable_depth:i:- pcore_idx:i:- file_path:s:-
        line_number:i:-
    """),
    _table("KernelStackFrames", "Frames of the user's functions.", """
        !stack_frame_id:i:- fully_qualified_function_name:s:- parent_stack_frame_id:i:-
        pcore_idx:i:- file_path:s:- line_number:i:-
    """),
    _table("SbufUsage", "Share of SBUF that is held.", """
        !timestamp:i:ns avg_util_percent:f:% partition_0_util_percent:f:%
        partition_32_util_percent:f:% partition_64_util_percent:f:%
        partition_96_util_percent:f:% pcore_idx:i:-
    """),
    _table("PsumUsage", "Share of PSUM that is held.", """
        !timestamp:i:ns avg_util_percent:f:% bank_0_util_percent:f:% bank_1_util_percent:f:%
        bank_2_util_percent:f:% bank_3_util_percent:f:% bank_4_util_percent:f:%
        bank_5_util_percent:f:% bank_6_util_percent:f:% bank_7_util_percent:f:%
        pcore_idx:i:-
    """),
    _table("SbufAllocation", "Tensors in SBUF.", """
        !start_ts:i:ns !end_ts:i:ns !start_address:i:B !end_address:i:B !partition:i:-
        op_source_type:s:- opcode:s:- operands:s:- queue_name:s:- block_id:i:-
        tensor_name:s:- hlo_name:s:- pcore_idx:i:-
    """),
    _table("Warning", "What the figures do not hold.", """
        !message:s:- !category:s:-
    """),
    _table("ExecutionInfo", "Executions in the profile.", """
        !execution_index:i:- neff_name:s:- execution_start_ts:i:ns execution_end_ts:i:ns
        num_subgraphs:i:- row_count:i:-
    """),
    _table("SchemaFields", "This schema.", """
        !table_name:s:- !table_description:s:- !field_name:s:- !field_description:s:-
        field_example:s:- !field_type:s:- !field_required:b:- field_format:s:-
        field_unit:s:- field_minimum:f:- field_maximum:f:- field_enum_values:s:-
    """),
)  # fmt: skip

TABLES: dict[str, Table] = {table.name: table for table in _ALL}
