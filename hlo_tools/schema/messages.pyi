# Made by scripts/build_schema from proto/*.proto.
from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal, overload

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
    ScalarMap,
)
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message

class KeyValueMetric(Message):
    key: str
    value: int
    def __init__(self, *, key: str | None = ..., value: int | None = ...) -> None: ...
PrimitiveType: EnumTypeWrapper
PRIMITIVE_TYPE_INVALID: int
PRED: int
S8: int
S16: int
S32: int
S64: int
U8: int
U16: int
U32: int
U64: int
F16: int
F32: int
F64: int
TUPLE: int
OPAQUE_TYPE: int
C64: int
BF16: int
TOKEN: int
C128: int
F8E5M2: int
F8E4M3FN: int
S4: int
U4: int
F8E4M3B11FNUZ: int
F8E5M2FNUZ: int
F8E4M3FNUZ: int
S2: int
U2: int
F8E4M3: int
F8E3M4: int
S1: int
U1: int
F4E2M1FN: int
F8E8M0FNU: int
BUFFER: int
F6E3M2FN: int
F6E2M3FN: int
CollectiveOpGroupMode: EnumTypeWrapper
COLLECTIVE_OP_GROUP_MODE_CROSS_REPLICA: int
COLLECTIVE_OP_GROUP_MODE_CROSS_PARTITION: int
COLLECTIVE_OP_GROUP_MODE_CROSS_REPLICA_AND_PARTITION: int
COLLECTIVE_OP_GROUP_MODE_FLATTENED_ID: int
DimLevelType: EnumTypeWrapper
DIM_DENSE: int
DIM_COMPRESSED: int
DIM_SINGLETON: int
DIM_LOOSE_COMPRESSED: int
ProfileType: EnumTypeWrapper
INVALID: int
WINDOW: int
FLAG: int
INTEGER: int
ProfileSource: EnumTypeWrapper
PROFILE_SOURCE_UNKNOWN_SOURCE: int
PROFILE_SOURCE_EMBEDDED: int
PROFILE_SOURCE_REMOTE: int
CompilationEvent: EnumTypeWrapper
COMPILATION_EVENT_UNKNOWN_EVENT: int
COMPILATION_EVENT_FIRST_COMPILATION: int
COMPILATION_EVENT_RECOMPILATION: int
ProfileGenerationStrategy: EnumTypeWrapper
PROFILE_GENERATION_STRATEGY_UNKNOWN: int
PROFILE_GENERATION_STRATEGY_GA: int
PROFILE_GENERATION_STRATEGY_FANTA: int
PROFILE_GENERATION_STRATEGY_CFO: int
PROFILE_GENERATION_STRATEGY_EXHAUSTIVE: int
PROFILE_GENERATION_STRATEGY_LCM_GNN: int
PROFILE_GENERATION_STRATEGY_LCM_MOE: int
PaddingType: EnumTypeWrapper
PADDING_INVALID: int
PADDING_VALID: int
PADDING_SAME: int
FftType: EnumTypeWrapper
FFT: int
IFFT: int
RFFT: int
IRFFT: int
RandomDistribution: EnumTypeWrapper
RNG_INVALID: int
RNG_UNIFORM: int
RNG_NORMAL: int
RandomAlgorithm: EnumTypeWrapper
RNG_DEFAULT: int
RNG_THREE_FRY: int
RNG_PHILOX: int
class PaddingConfig(Message):
    class PaddingConfigDimension(Message):
        edge_padding_low: int
        edge_padding_high: int
        interior_padding: int
        def __init__(self, *, edge_padding_low: int | None = ..., edge_padding_high: int | None = ..., interior_padding: int | None = ...) -> None: ...
    @property
    def dimensions(self) -> RepeatedCompositeFieldContainer[PaddingConfig.PaddingConfigDimension]: ...
    def __init__(self, *, dimensions: Iterable[PaddingConfig.PaddingConfigDimension] | None = ...) -> None: ...
class TileProto(Message):
    @property
    def dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, dimensions: Iterable[int] | None = ...) -> None: ...
class SplitConfigProto(Message):
    dimension: int
    @property
    def split_indices(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, dimension: int | None = ..., split_indices: Iterable[int] | None = ...) -> None: ...
class LayoutProto(Message):
    @property
    def minor_to_major(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def tiles(self) -> RepeatedCompositeFieldContainer[TileProto]: ...
    element_size_in_bits: int
    memory_space: int
    @property
    def dim_level_types(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def physical_shape(self) -> ShapeProto: ...
    index_primitive_type: int
    pointer_primitive_type: int
    @property
    def dim_unique(self) -> RepeatedScalarFieldContainer[bool]: ...
    @property
    def dim_ordered(self) -> RepeatedScalarFieldContainer[bool]: ...
    dynamic_shape_metadata_prefix_bytes: int
    tail_padding_alignment_in_elements: int
    @property
    def split_configs(self) -> RepeatedCompositeFieldContainer[SplitConfigProto]: ...
    def __init__(self, *, minor_to_major: Iterable[int] | None = ..., tiles: Iterable[TileProto] | None = ..., element_size_in_bits: int | None = ..., memory_space: int | None = ..., dim_level_types: Iterable[int | str] | None = ..., physical_shape: ShapeProto | None = ..., index_primitive_type: int | str | None = ..., pointer_primitive_type: int | str | None = ..., dim_unique: Iterable[bool] | None = ..., dim_ordered: Iterable[bool] | None = ..., dynamic_shape_metadata_prefix_bytes: int | None = ..., tail_padding_alignment_in_elements: int | None = ..., split_configs: Iterable[SplitConfigProto] | None = ...) -> None: ...
class ShapeProto(Message):
    element_type: int
    @property
    def dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def tuple_shapes(self) -> RepeatedCompositeFieldContainer[ShapeProto]: ...
    @property
    def layout(self) -> LayoutProto: ...
    @property
    def is_dynamic_dimension(self) -> RepeatedScalarFieldContainer[bool]: ...
    def __init__(self, *, element_type: int | str | None = ..., dimensions: Iterable[int] | None = ..., tuple_shapes: Iterable[ShapeProto] | None = ..., layout: LayoutProto | None = ..., is_dynamic_dimension: Iterable[bool] | None = ...) -> None: ...
class ProgramShapeProto(Message):
    @property
    def parameters(self) -> RepeatedCompositeFieldContainer[ShapeProto]: ...
    @property
    def result(self) -> ShapeProto: ...
    @property
    def parameter_names(self) -> RepeatedScalarFieldContainer[str]: ...
    def __init__(self, *, parameters: Iterable[ShapeProto] | None = ..., result: ShapeProto | None = ..., parameter_names: Iterable[str] | None = ...) -> None: ...
class ComputationStats(Message):
    flop_count: float
    transcendental_count: float
    def __init__(self, *, flop_count: float | None = ..., transcendental_count: float | None = ...) -> None: ...
class Payload(Message):
    value: bytes
    id: int
    def WhichOneof(self, oneof_group: Literal["payload_source"]) -> Literal["value", "id"] | None: ...
    def __init__(self, *, value: bytes | None = ..., id: int | None = ...) -> None: ...
class OpMetadata(Message):
    class ProfileInfo(Message):
        @property
        def profile_type(self) -> RepeatedScalarFieldContainer[int]: ...
        relative_speedup: float
        profile_source: int
        compilation_event: int
        profile_generation_strategy: int
        def __init__(self, *, profile_type: Iterable[int | str] | None = ..., relative_speedup: float | None = ..., profile_source: int | str | None = ..., compilation_event: int | str | None = ..., profile_generation_strategy: int | str | None = ...) -> None: ...
    op_type: str
    op_name: str
    source_file: str
    source_line: int
    @property
    def profile_type(self) -> RepeatedScalarFieldContainer[int]: ...
    size_of_generated_code_in_bytes: int
    size_of_memory_working_set_in_bytes: int
    @property
    def profile_info(self) -> OpMetadata.ProfileInfo: ...
    deduplicated_name: str
    stack_frame_id: int
    scheduling_name: str
    source_end_line: int
    source_column: int
    source_end_column: int
    @property
    def metadata_payload(self) -> Payload: ...
    def __init__(self, *, op_type: str | None = ..., op_name: str | None = ..., source_file: str | None = ..., source_line: int | None = ..., profile_type: Iterable[int | str] | None = ..., size_of_generated_code_in_bytes: int | None = ..., size_of_memory_working_set_in_bytes: int | None = ..., profile_info: OpMetadata.ProfileInfo | None = ..., deduplicated_name: str | None = ..., stack_frame_id: int | None = ..., scheduling_name: str | None = ..., source_end_line: int | None = ..., source_column: int | None = ..., source_end_column: int | None = ..., metadata_payload: Payload | None = ...) -> None: ...
class ExecutionProfile(Message):
    compilation_cache_hit: bool
    compile_time_ms: int
    compute_cycle_count: int
    compute_time_ns: int
    compute_and_transfer_time_ns: int
    executable_size_in_bytes: int
    profile_cache_hit: bool
    warmup_run_executed: bool
    def __init__(self, *, compilation_cache_hit: bool | None = ..., compile_time_ms: int | None = ..., compute_cycle_count: int | None = ..., compute_time_ns: int | None = ..., compute_and_transfer_time_ns: int | None = ..., executable_size_in_bytes: int | None = ..., profile_cache_hit: bool | None = ..., warmup_run_executed: bool | None = ...) -> None: ...
class ExecutionHandle(Message):
    handle: int
    def __init__(self, *, handle: int | None = ...) -> None: ...
class GlobalDataHandle(Message):
    handle: int
    def __init__(self, *, handle: int | None = ...) -> None: ...
class DeviceHandle(Message):
    handle: int
    device_count: int
    def __init__(self, *, handle: int | None = ..., device_count: int | None = ...) -> None: ...
class ChannelHandle(Message):
    ChannelType: ClassVar[EnumTypeWrapper]
    CHANNEL_TYPE_INVALID: ClassVar[int]
    DEVICE_TO_DEVICE: ClassVar[int]
    DEVICE_TO_HOST: ClassVar[int]
    HOST_TO_DEVICE: ClassVar[int]
    handle: int
    type: int
    def __init__(self, *, handle: int | None = ..., type: int | str | None = ...) -> None: ...
class DeviceAssignmentProto(Message):
    class ComputationDevice(Message):
        @property
        def replica_device_ids(self) -> RepeatedScalarFieldContainer[int]: ...
        def __init__(self, *, replica_device_ids: Iterable[int] | None = ...) -> None: ...
    replica_count: int
    computation_count: int
    @property
    def computation_devices(self) -> RepeatedCompositeFieldContainer[DeviceAssignmentProto.ComputationDevice]: ...
    def __init__(self, *, replica_count: int | None = ..., computation_count: int | None = ..., computation_devices: Iterable[DeviceAssignmentProto.ComputationDevice] | None = ...) -> None: ...
class LiteralProto(Message):
    @property
    def shape(self) -> ShapeProto: ...
    @property
    def preds(self) -> RepeatedScalarFieldContainer[bool]: ...
    u8s: bytes
    @property
    def s32s(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def s64s(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def u32s(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def u64s(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def f32s(self) -> RepeatedScalarFieldContainer[float]: ...
    @property
    def f64s(self) -> RepeatedScalarFieldContainer[float]: ...
    @property
    def tuple_literals(self) -> RepeatedCompositeFieldContainer[LiteralProto]: ...
    f16s: bytes
    @property
    def c64s(self) -> RepeatedScalarFieldContainer[float]: ...
    bf16s: bytes
    @property
    def sparse_indices(self) -> RepeatedScalarFieldContainer[int]: ...
    s8s: bytes
    u16s: bytes
    s16s: bytes
    @property
    def c128s(self) -> RepeatedScalarFieldContainer[float]: ...
    f8e5m2s: bytes
    f8e4m3fns: bytes
    s4s: bytes
    u4s: bytes
    f8e4m3b11fnuzs: bytes
    f8e5m2fnuzs: bytes
    f8e4m3fnuzs: bytes
    s2s: bytes
    u2s: bytes
    f8e4m3s: bytes
    f8e3m4s: bytes
    s1s: bytes
    u1s: bytes
    f4e2m1fns: bytes
    f8e8m0fnus: bytes
    @property
    def dynamic_sizes(self) -> RepeatedScalarFieldContainer[int]: ...
    f6e3m2fns: bytes
    f6e2m3fns: bytes
    def __init__(self, *, shape: ShapeProto | None = ..., preds: Iterable[bool] | None = ..., u8s: bytes | None = ..., s32s: Iterable[int] | None = ..., s64s: Iterable[int] | None = ..., u32s: Iterable[int] | None = ..., u64s: Iterable[int] | None = ..., f32s: Iterable[float] | None = ..., f64s: Iterable[float] | None = ..., tuple_literals: Iterable[LiteralProto] | None = ..., f16s: bytes | None = ..., c64s: Iterable[float] | None = ..., bf16s: bytes | None = ..., sparse_indices: Iterable[int] | None = ..., s8s: bytes | None = ..., u16s: bytes | None = ..., s16s: bytes | None = ..., c128s: Iterable[float] | None = ..., f8e5m2s: bytes | None = ..., f8e4m3fns: bytes | None = ..., s4s: bytes | None = ..., u4s: bytes | None = ..., f8e4m3b11fnuzs: bytes | None = ..., f8e5m2fnuzs: bytes | None = ..., f8e4m3fnuzs: bytes | None = ..., s2s: bytes | None = ..., u2s: bytes | None = ..., f8e4m3s: bytes | None = ..., f8e3m4s: bytes | None = ..., s1s: bytes | None = ..., u1s: bytes | None = ..., f4e2m1fns: bytes | None = ..., f8e8m0fnus: bytes | None = ..., dynamic_sizes: Iterable[int] | None = ..., f6e3m2fns: bytes | None = ..., f6e2m3fns: bytes | None = ...) -> None: ...
class WindowDimension(Message):
    size: int
    stride: int
    padding_low: int
    padding_high: int
    window_dilation: int
    base_dilation: int
    window_reversal: bool
    def __init__(self, *, size: int | None = ..., stride: int | None = ..., padding_low: int | None = ..., padding_high: int | None = ..., window_dilation: int | None = ..., base_dilation: int | None = ..., window_reversal: bool | None = ...) -> None: ...
class Window(Message):
    @property
    def dimensions(self) -> RepeatedCompositeFieldContainer[WindowDimension]: ...
    def __init__(self, *, dimensions: Iterable[WindowDimension] | None = ...) -> None: ...
class GatherDimensionNumbers(Message):
    @property
    def offset_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def collapsed_slice_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def start_index_map(self) -> RepeatedScalarFieldContainer[int]: ...
    index_vector_dim: int
    @property
    def operand_batching_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def start_indices_batching_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, offset_dims: Iterable[int] | None = ..., collapsed_slice_dims: Iterable[int] | None = ..., start_index_map: Iterable[int] | None = ..., index_vector_dim: int | None = ..., operand_batching_dims: Iterable[int] | None = ..., start_indices_batching_dims: Iterable[int] | None = ...) -> None: ...
class ScatterDimensionNumbers(Message):
    @property
    def update_window_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def inserted_window_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def scatter_dims_to_operand_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    index_vector_dim: int
    @property
    def input_batching_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def scatter_indices_batching_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, update_window_dims: Iterable[int] | None = ..., inserted_window_dims: Iterable[int] | None = ..., scatter_dims_to_operand_dims: Iterable[int] | None = ..., index_vector_dim: int | None = ..., input_batching_dims: Iterable[int] | None = ..., scatter_indices_batching_dims: Iterable[int] | None = ...) -> None: ...
class ConvolutionDimensionNumbers(Message):
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    @property
    def kernel_spatial_dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    input_batch_dimension: int
    input_feature_dimension: int
    output_batch_dimension: int
    output_feature_dimension: int
    @property
    def input_spatial_dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def output_spatial_dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, kernel_input_feature_dimension: int | None = ..., kernel_output_feature_dimension: int | None = ..., kernel_spatial_dimensions: Iterable[int] | None = ..., input_batch_dimension: int | None = ..., input_feature_dimension: int | None = ..., output_batch_dimension: int | None = ..., output_feature_dimension: int | None = ..., input_spatial_dimensions: Iterable[int] | None = ..., output_spatial_dimensions: Iterable[int] | None = ...) -> None: ...
class SparsityConfig(Message):
    class TensorSparsityConfig(Message):
        num_non_zero: int
        block_size: int
        dimension: int
        stride: int
        idx: int
        def __init__(self, *, num_non_zero: int | None = ..., block_size: int | None = ..., dimension: int | None = ..., stride: int | None = ..., idx: int | None = ...) -> None: ...
    @property
    def lhs(self) -> SparsityConfig.TensorSparsityConfig: ...
    @property
    def rhs(self) -> SparsityConfig.TensorSparsityConfig: ...
    def __init__(self, *, lhs: SparsityConfig.TensorSparsityConfig | None = ..., rhs: SparsityConfig.TensorSparsityConfig | None = ...) -> None: ...
class DotDimensionNumbers(Message):
    @property
    def lhs_contracting_dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def rhs_contracting_dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def lhs_batch_dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def rhs_batch_dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, lhs_contracting_dimensions: Iterable[int] | None = ..., rhs_contracting_dimensions: Iterable[int] | None = ..., lhs_batch_dimensions: Iterable[int] | None = ..., rhs_batch_dimensions: Iterable[int] | None = ...) -> None: ...
class RaggedDotDimensionNumbers(Message):
    @property
    def dot_dimension_numbers(self) -> DotDimensionNumbers: ...
    @property
    def lhs_ragged_dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def rhs_group_dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, dot_dimension_numbers: DotDimensionNumbers | None = ..., lhs_ragged_dimensions: Iterable[int] | None = ..., rhs_group_dimensions: Iterable[int] | None = ...) -> None: ...
class TriangularSolveOptions(Message):
    Transpose: ClassVar[EnumTypeWrapper]
    TRANSPOSE_INVALID: ClassVar[int]
    NO_TRANSPOSE: ClassVar[int]
    TRANSPOSE: ClassVar[int]
    ADJOINT: ClassVar[int]
    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: int
    def __init__(self, *, left_side: bool | None = ..., lower: bool | None = ..., unit_diagonal: bool | None = ..., transpose_a: int | str | None = ...) -> None: ...
class CholeskyOptions(Message):
    lower: bool
    def __init__(self, *, lower: bool | None = ...) -> None: ...
class CubScanOptions(Message):
    Kind: ClassVar[EnumTypeWrapper]
    KIND_INVALID: ClassVar[int]
    SUM: ClassVar[int]
    vector_length: int
    row_length: int
    column_length: int
    kind: int
    is_reverse: bool
    def __init__(self, *, vector_length: int | None = ..., row_length: int | None = ..., column_length: int | None = ..., kind: int | str | None = ..., is_reverse: bool | None = ...) -> None: ...
class SortOptions(Message):
    descending: bool
    def __init__(self, *, descending: bool | None = ...) -> None: ...
class FrontendAttributes(Message):
    @property
    def map(self) -> ScalarMap[str, str]: ...
    def __init__(self, *, map: Mapping[str, str] | None = ...) -> None: ...
class Statistic(Message):
    stat_name: str
    stat_val: float
    def __init__(self, *, stat_name: str | None = ..., stat_val: float | None = ...) -> None: ...
class StatisticsViz(Message):
    stat_index_to_visualize: int
    @property
    def statistics(self) -> RepeatedCompositeFieldContainer[Statistic]: ...
    def __init__(self, *, stat_index_to_visualize: int | None = ..., statistics: Iterable[Statistic] | None = ...) -> None: ...
class MeshProto(Message):
    class MeshAxis(Message):
        name: str
        size: int
        def __init__(self, *, name: str | None = ..., size: int | None = ...) -> None: ...
    class IotaTransform(Message):
        @property
        def reshape_dims(self) -> RepeatedScalarFieldContainer[int]: ...
        @property
        def transpose_perm(self) -> RepeatedScalarFieldContainer[int]: ...
        def __init__(self, *, reshape_dims: Iterable[int] | None = ..., transpose_perm: Iterable[int] | None = ...) -> None: ...
    @property
    def axes(self) -> RepeatedCompositeFieldContainer[MeshProto.MeshAxis]: ...
    @property
    def device_ids(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def iota_transform(self) -> MeshProto.IotaTransform: ...
    def __init__(self, *, axes: Iterable[MeshProto.MeshAxis] | None = ..., device_ids: Iterable[int] | None = ..., iota_transform: MeshProto.IotaTransform | None = ...) -> None: ...
class AxisRefProto(Message):
    class SubAxis(Message):
        pre_size: int
        size: int
        def __init__(self, *, pre_size: int | None = ..., size: int | None = ...) -> None: ...
    mesh_axis_index: int
    @property
    def sub_axis_info(self) -> AxisRefProto.SubAxis: ...
    def __init__(self, *, mesh_axis_index: int | None = ..., sub_axis_info: AxisRefProto.SubAxis | None = ...) -> None: ...
class NamedShardingProto(Message):
    ReductionOpProto: ClassVar[EnumTypeWrapper]
    SUM: ClassVar[int]
    MAX: ClassVar[int]
    MIN: ClassVar[int]
    class DimensionSharding(Message):
        @property
        def axes(self) -> RepeatedCompositeFieldContainer[AxisRefProto]: ...
        is_closed: bool
        def __init__(self, *, axes: Iterable[AxisRefProto] | None = ..., is_closed: bool | None = ...) -> None: ...
    @property
    def mesh(self) -> MeshProto: ...
    @property
    def dim_shardings(self) -> RepeatedCompositeFieldContainer[NamedShardingProto.DimensionSharding]: ...
    @property
    def replicated_axes(self) -> RepeatedCompositeFieldContainer[AxisRefProto]: ...
    @property
    def unreduced_axes(self) -> RepeatedCompositeFieldContainer[AxisRefProto]: ...
    @property
    def metadata(self) -> RepeatedCompositeFieldContainer[OpMetadata]: ...
    @property
    def manual_axes(self) -> RepeatedCompositeFieldContainer[AxisRefProto]: ...
    reduction_op: int
    def __init__(self, *, mesh: MeshProto | None = ..., dim_shardings: Iterable[NamedShardingProto.DimensionSharding] | None = ..., replicated_axes: Iterable[AxisRefProto] | None = ..., unreduced_axes: Iterable[AxisRefProto] | None = ..., metadata: Iterable[OpMetadata] | None = ..., manual_axes: Iterable[AxisRefProto] | None = ..., reduction_op: int | str | None = ...) -> None: ...
class OpSharding(Message):
    Type: ClassVar[EnumTypeWrapper]
    REPLICATED: ClassVar[int]
    MAXIMAL: ClassVar[int]
    TUPLE: ClassVar[int]
    OTHER: ClassVar[int]
    MANUAL: ClassVar[int]
    UNKNOWN: ClassVar[int]
    UNREDUCED: ClassVar[int]
    ShardGroupType: ClassVar[EnumTypeWrapper]
    AS: ClassVar[int]
    LIKE: ClassVar[int]
    type: int
    @property
    def tile_shape(self) -> ShapeProto: ...
    @property
    def tile_assignment_dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def tile_assignment_devices(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def tuple_shardings(self) -> RepeatedCompositeFieldContainer[OpSharding]: ...
    replicate_on_last_tile_dim: bool
    @property
    def metadata(self) -> RepeatedCompositeFieldContainer[OpMetadata]: ...
    @property
    def last_tile_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def iota_reshape_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def iota_transpose_perm(self) -> RepeatedScalarFieldContainer[int]: ...
    is_shard_group: bool
    shard_group_id: int
    shard_group_type: int
    @property
    def named_sharding(self) -> NamedShardingProto: ...
    def __init__(self, *, type: int | str | None = ..., tile_shape: ShapeProto | None = ..., tile_assignment_dimensions: Iterable[int] | None = ..., tile_assignment_devices: Iterable[int] | None = ..., tuple_shardings: Iterable[OpSharding] | None = ..., replicate_on_last_tile_dim: bool | None = ..., metadata: Iterable[OpMetadata] | None = ..., last_tile_dims: Iterable[int | str] | None = ..., iota_reshape_dims: Iterable[int] | None = ..., iota_transpose_perm: Iterable[int] | None = ..., is_shard_group: bool | None = ..., shard_group_id: int | None = ..., shard_group_type: int | str | None = ..., named_sharding: NamedShardingProto | None = ...) -> None: ...
class ReplicaGroup(Message):
    @property
    def replica_ids(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, replica_ids: Iterable[int] | None = ...) -> None: ...
class MeshAxesReplicaGroupListProto(Message):
    @property
    def mesh(self) -> MeshProto: ...
    @property
    def axes(self) -> RepeatedCompositeFieldContainer[AxisRefProto]: ...
    def __init__(self, *, mesh: MeshProto | None = ..., axes: Iterable[AxisRefProto] | None = ...) -> None: ...
class IotaReplicaGroupListProto(Message):
    num_replica_groups: int
    num_devices_per_group: int
    @property
    def iota_reshape_dims(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def iota_transpose_perm(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, num_replica_groups: int | None = ..., num_devices_per_group: int | None = ..., iota_reshape_dims: Iterable[int] | None = ..., iota_transpose_perm: Iterable[int] | None = ...) -> None: ...
class CollectiveDeviceListProto(Message):
    @property
    def replica_groups(self) -> RepeatedCompositeFieldContainer[ReplicaGroup]: ...
    @property
    def iota_replica_group_list(self) -> IotaReplicaGroupListProto: ...
    def __init__(self, *, replica_groups: Iterable[ReplicaGroup] | None = ..., iota_replica_group_list: IotaReplicaGroupListProto | None = ...) -> None: ...
class SourceTarget(Message):
    source: int
    target: int
    def __init__(self, *, source: int | None = ..., target: int | None = ...) -> None: ...
class ResultAccuracy(Message):
    Mode: ClassVar[EnumTypeWrapper]
    DEFAULT: ClassVar[int]
    HIGHEST: ClassVar[int]
    class Tolerance(Message):
        atol: float
        rtol: float
        ulps: int
        def __init__(self, *, atol: float | None = ..., rtol: float | None = ..., ulps: int | None = ...) -> None: ...
    mode: int
    @property
    def tolerance(self) -> ResultAccuracy.Tolerance: ...
    def WhichOneof(self, oneof_group: Literal["specs"]) -> Literal["mode", "tolerance"] | None: ...
    def __init__(self, *, mode: int | str | None = ..., tolerance: ResultAccuracy.Tolerance | None = ...) -> None: ...
class PrecisionConfig(Message):
    Precision: ClassVar[EnumTypeWrapper]
    DEFAULT: ClassVar[int]
    HIGH: ClassVar[int]
    HIGHEST: ClassVar[int]
    Algorithm: ClassVar[EnumTypeWrapper]
    ALG_UNSET: ClassVar[int]
    ALG_DOT_ANY_F8_ANY_F8_F32: ClassVar[int]
    ALG_DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM: ClassVar[int]
    ALG_DOT_F16_F16_F16: ClassVar[int]
    ALG_DOT_F16_F16_F32: ClassVar[int]
    ALG_DOT_BF16_BF16_BF16: ClassVar[int]
    ALG_DOT_BF16_BF16_F32: ClassVar[int]
    ALG_DOT_BF16_BF16_F32_X3: ClassVar[int]
    ALG_DOT_BF16_BF16_F32_X6: ClassVar[int]
    ALG_DOT_TF32_TF32_F32: ClassVar[int]
    ALG_DOT_TF32_TF32_F32_X3: ClassVar[int]
    ALG_DOT_F32_F32_F32: ClassVar[int]
    ALG_DOT_F64_F64_F64: ClassVar[int]
    ALG_DOT_BF16_BF16_F32_X9: ClassVar[int]
    @property
    def operand_precision(self) -> RepeatedScalarFieldContainer[int]: ...
    algorithm: int
    def __init__(self, *, operand_precision: Iterable[int | str] | None = ..., algorithm: int | str | None = ...) -> None: ...
class ParameterReplication(Message):
    @property
    def replicated_at_leaf_buffers(self) -> RepeatedScalarFieldContainer[bool]: ...
    def __init__(self, *, replicated_at_leaf_buffers: Iterable[bool] | None = ...) -> None: ...
class WhileLoopBackendConfig(Message):
    class KnownInitStep(Message):
        init: int
        step: int
        def __init__(self, *, init: int | None = ..., step: int | None = ...) -> None: ...
    class KnownTripCount(Message):
        n: int
        def __init__(self, *, n: int | None = ...) -> None: ...
    class KnownInductionVariable(Message):
        tuple_index: int
        def __init__(self, *, tuple_index: int | None = ...) -> None: ...
    class DynamicVariable(Message):
        tuple_index: int
        init: int
        step: int
        def __init__(self, *, tuple_index: int | None = ..., init: int | None = ..., step: int | None = ...) -> None: ...
    @property
    def known_trip_count(self) -> WhileLoopBackendConfig.KnownTripCount: ...
    @property
    def known_init_step(self) -> WhileLoopBackendConfig.KnownInitStep: ...
    @property
    def known_induction_variable(self) -> WhileLoopBackendConfig.KnownInductionVariable: ...
    @property
    def dynamic_variables(self) -> RepeatedCompositeFieldContainer[WhileLoopBackendConfig.DynamicVariable]: ...
    def __init__(self, *, known_trip_count: WhileLoopBackendConfig.KnownTripCount | None = ..., known_init_step: WhileLoopBackendConfig.KnownInitStep | None = ..., known_induction_variable: WhileLoopBackendConfig.KnownInductionVariable | None = ..., dynamic_variables: Iterable[WhileLoopBackendConfig.DynamicVariable] | None = ...) -> None: ...
class OutputOperandAliasing(Message):
    @property
    def output_shape_index(self) -> RepeatedScalarFieldContainer[int]: ...
    operand_index: int
    @property
    def operand_shape_index(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, output_shape_index: Iterable[int] | None = ..., operand_index: int | None = ..., operand_shape_index: Iterable[int] | None = ...) -> None: ...
class OriginalArrayProto(Message):
    instruction_name: str
    @property
    def shape_index(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(self, *, instruction_name: str | None = ..., shape_index: Iterable[int] | None = ...) -> None: ...
class OriginalValueElementProto(Message):
    @property
    def shape_index(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def original_array(self) -> OriginalArrayProto: ...
    def __init__(self, *, shape_index: Iterable[int] | None = ..., original_array: OriginalArrayProto | None = ...) -> None: ...
class OriginalValueProto(Message):
    @property
    def elements(self) -> RepeatedCompositeFieldContainer[OriginalValueElementProto]: ...
    is_synthetic_call: bool
    def __init__(self, *, elements: Iterable[OriginalValueElementProto] | None = ..., is_synthetic_call: bool | None = ...) -> None: ...
CustomCallSchedule: EnumTypeWrapper
SCHEDULE_NONE: int
SCHEDULE_LATEST: int
SCHEDULE_EARLIEST: int
TriState: EnumTypeWrapper
TRI_STATE_UNSPECIFIED: int
TRI_STATE_TRUE: int
TRI_STATE_FALSE: int
ConvolutionKind: EnumTypeWrapper
CONVOLUTION_KIND_UNSET: int
CONVOLUTION_KIND_FPROP: int
CONVOLUTION_KIND_DGRAD: int
CONVOLUTION_KIND_WGRAD: int
CustomCallApiVersion: EnumTypeWrapper
API_VERSION_UNSPECIFIED: int
API_VERSION_ORIGINAL: int
API_VERSION_STATUS_RETURNING: int
API_VERSION_STATUS_RETURNING_UNIFIED: int
API_VERSION_TYPED_FFI: int
Kind: EnumTypeWrapper
UNDEFINED_ALIAS: int
MAY_ALIAS: int
MUST_ALIAS: int
class HloInstructionProto(Message):
    class SliceDimensions(Message):
        start: int
        limit: int
        stride: int
        def __init__(self, *, start: int | None = ..., limit: int | None = ..., stride: int | None = ...) -> None: ...
    name: str
    opcode: str
    @property
    def shape(self) -> ShapeProto: ...
    @property
    def metadata(self) -> OpMetadata: ...
    @property
    def literal(self) -> LiteralProto: ...
    parameter_number: int
    fusion_kind: str
    tuple_index: int
    @property
    def dimensions(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def window(self) -> Window: ...
    @property
    def convolution_dimension_numbers(self) -> ConvolutionDimensionNumbers: ...
    @property
    def slice_dimensions(self) -> RepeatedCompositeFieldContainer[HloInstructionProto.SliceDimensions]: ...
    exponent_bits: int
    mantissa_bits: int
    @property
    def dynamic_slice_sizes(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def padding_config(self) -> PaddingConfig: ...
    outfeed_config: bytes
    distribution: int
    epsilon: float
    feature_index: int
    channel_id: int
    infeed_config: bytes
    custom_call_target: str
    @property
    def outfeed_shape(self) -> ShapeProto: ...
    @property
    def dot_dimension_numbers(self) -> DotDimensionNumbers: ...
    fft_type: int
    @property
    def fft_length(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def gather_dimension_numbers(self) -> GatherDimensionNumbers: ...
    @property
    def gather_slice_sizes(self) -> RepeatedScalarFieldContainer[int]: ...
    id: int
    @property
    def operand_ids(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def control_predecessor_ids(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def called_computation_ids(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def sharding(self) -> OpSharding: ...
    backend_config: bytes
    all_reduce_id: int
    is_host_transfer: bool
    @property
    def scatter_dimension_numbers(self) -> ScatterDimensionNumbers: ...
    @property
    def replica_groups(self) -> RepeatedCompositeFieldContainer[ReplicaGroup]: ...
    feature_group_count: int
    @property
    def precision_config(self) -> PrecisionConfig: ...
    @property
    def source_target_pairs(self) -> RepeatedCompositeFieldContainer[SourceTarget]: ...
    @property
    def domain_entry_sharding(self) -> OpSharding: ...
    @property
    def domain_exit_sharding(self) -> OpSharding: ...
    constrain_layout: bool
    @property
    def operand_shapes_with_layout(self) -> RepeatedCompositeFieldContainer[ShapeProto]: ...
    batch_group_count: int
    @property
    def triangular_solve_options(self) -> TriangularSolveOptions: ...
    is_stable: bool
    @property
    def parameter_replication(self) -> ParameterReplication: ...
    @property
    def cholesky_options(self) -> CholeskyOptions: ...
    comparison_direction: str
    custom_call_has_side_effect: bool
    delta: int
    indices_are_sorted: bool
    @property
    def frontend_attributes(self) -> FrontendAttributes: ...
    unique_indices: bool
    rng_algorithm: int
    use_global_device_ids: bool
    comparison_type: str
    is_cross_program_prefetch: bool
    @property
    def output_operand_aliasing(self) -> RepeatedCompositeFieldContainer[OutputOperandAliasing]: ...
    padding_type: int
    custom_call_schedule: int
    custom_call_api_version: int
    async_execution_thread: str
    cross_program_prefetch_index: int
    k: int
    @property
    def statistics_viz(self) -> StatisticsViz: ...
    largest: bool
    @property
    def collective_device_list(self) -> CollectiveDeviceListProto: ...
    @property
    def iota_collective_device_list(self) -> IotaReplicaGroupListProto: ...
    @property
    def mesh_axes_replica_group_list(self) -> MeshAxesReplicaGroupListProto: ...
    original_value: bytes
    is_composite: bool
    @property
    def ragged_dot_dimension_numbers(self) -> RaggedDotDimensionNumbers: ...
    @property
    def result_accuracy(self) -> ResultAccuracy: ...
    is_reverse: bool
    num_carries: int
    is_associative: int
    conv_kind: int
    @property
    def sparsity_config(self) -> SparsityConfig: ...
    @property
    def backend_config_payload(self) -> Payload: ...
    has_dynamic_root: bool
    @property
    def empty_options(self) -> EmptyOptionsProto: ...
    comparison_order: str
    @overload
    def WhichOneof(self, oneof_group: Literal["optional_cross_program_prefetch_index"]) -> Literal["cross_program_prefetch_index"] | None: ...
    @overload
    def WhichOneof(self, oneof_group: Literal["replica_group_list"]) -> Literal["collective_device_list", "iota_collective_device_list", "mesh_axes_replica_group_list"] | None: ...
    def __init__(self, *, name: str | None = ..., opcode: str | None = ..., shape: ShapeProto | None = ..., metadata: OpMetadata | None = ..., literal: LiteralProto | None = ..., parameter_number: int | None = ..., fusion_kind: str | None = ..., tuple_index: int | None = ..., dimensions: Iterable[int] | None = ..., window: Window | None = ..., convolution_dimension_numbers: ConvolutionDimensionNumbers | None = ..., slice_dimensions: Iterable[HloInstructionProto.SliceDimensions] | None = ..., exponent_bits: int | None = ..., mantissa_bits: int | None = ..., dynamic_slice_sizes: Iterable[int] | None = ..., padding_config: PaddingConfig | None = ..., outfeed_config: bytes | None = ..., distribution: int | str | None = ..., epsilon: float | None = ..., feature_index: int | None = ..., channel_id: int | None = ..., infeed_config: bytes | None = ..., custom_call_target: str | None = ..., outfeed_shape: ShapeProto | None = ..., dot_dimension_numbers: DotDimensionNumbers | None = ..., fft_type: int | str | None = ..., fft_length: Iterable[int] | None = ..., gather_dimension_numbers: GatherDimensionNumbers | None = ..., gather_slice_sizes: Iterable[int] | None = ..., id: int | None = ..., operand_ids: Iterable[int] | None = ..., control_predecessor_ids: Iterable[int] | None = ..., called_computation_ids: Iterable[int] | None = ..., sharding: OpSharding | None = ..., backend_config: bytes | None = ..., all_reduce_id: int | None = ..., is_host_transfer: bool | None = ..., scatter_dimension_numbers: ScatterDimensionNumbers | None = ..., replica_groups: Iterable[ReplicaGroup] | None = ..., feature_group_count: int | None = ..., precision_config: PrecisionConfig | None = ..., source_target_pairs: Iterable[SourceTarget] | None = ..., domain_entry_sharding: OpSharding | None = ..., domain_exit_sharding: OpSharding | None = ..., constrain_layout: bool | None = ..., operand_shapes_with_layout: Iterable[ShapeProto] | None = ..., batch_group_count: int | None = ..., triangular_solve_options: TriangularSolveOptions | None = ..., is_stable: bool | None = ..., parameter_replication: ParameterReplication | None = ..., cholesky_options: CholeskyOptions | None = ..., comparison_direction: str | None = ..., custom_call_has_side_effect: bool | None = ..., delta: int | None = ..., indices_are_sorted: bool | None = ..., frontend_attributes: FrontendAttributes | None = ..., unique_indices: bool | None = ..., rng_algorithm: int | str | None = ..., use_global_device_ids: bool | None = ..., comparison_type: str | None = ..., is_cross_program_prefetch: bool | None = ..., output_operand_aliasing: Iterable[OutputOperandAliasing] | None = ..., padding_type: int | str | None = ..., custom_call_schedule: int | str | None = ..., custom_call_api_version: int | str | None = ..., async_execution_thread: str | None = ..., cross_program_prefetch_index: int | None = ..., k: int | None = ..., statistics_viz: StatisticsViz | None = ..., largest: bool | None = ..., collective_device_list: CollectiveDeviceListProto | None = ..., iota_collective_device_list: IotaReplicaGroupListProto | None = ..., mesh_axes_replica_group_list: MeshAxesReplicaGroupListProto | None = ..., original_value: bytes | None = ..., is_composite: bool | None = ..., ragged_dot_dimension_numbers: RaggedDotDimensionNumbers | None = ..., result_accuracy: ResultAccuracy | None = ..., is_reverse: bool | None = ..., num_carries: int | None = ..., is_associative: int | str | None = ..., conv_kind: int | str | None = ..., sparsity_config: SparsityConfig | None = ..., backend_config_payload: Payload | None = ..., has_dynamic_root: bool | None = ..., empty_options: EmptyOptionsProto | None = ..., comparison_order: str | None = ...) -> None: ...
class EmptyOptionsProto(Message):
    def __init__(self, ) -> None: ...
class HloComputationProto(Message):
    name: str
    @property
    def instructions(self) -> RepeatedCompositeFieldContainer[HloInstructionProto]: ...
    @property
    def program_shape(self) -> ProgramShapeProto: ...
    id: int
    root_id: int
    is_fusion_computation: bool
    execution_thread: str
    def __init__(self, *, name: str | None = ..., instructions: Iterable[HloInstructionProto] | None = ..., program_shape: ProgramShapeProto | None = ..., id: int | None = ..., root_id: int | None = ..., is_fusion_computation: bool | None = ..., execution_thread: str | None = ...) -> None: ...
class HloScheduleProto(Message):
    class InstructionSequence(Message):
        @property
        def instruction_ids(self) -> RepeatedScalarFieldContainer[int]: ...
        def __init__(self, *, instruction_ids: Iterable[int] | None = ...) -> None: ...
    @property
    def sequences(self) -> MessageMap[int, HloScheduleProto.InstructionSequence]: ...
    def __init__(self, *, sequences: Mapping[int, HloScheduleProto.InstructionSequence] | None = ...) -> None: ...
class HloInputOutputAliasProto(Message):
    class AliasEntryProto(Message):
        @property
        def output_shape_index(self) -> RepeatedScalarFieldContainer[int]: ...
        parameter_number: int
        @property
        def parameter_shape_index(self) -> RepeatedScalarFieldContainer[int]: ...
        kind: int
        def __init__(self, *, output_shape_index: Iterable[int] | None = ..., parameter_number: int | None = ..., parameter_shape_index: Iterable[int] | None = ..., kind: int | str | None = ...) -> None: ...
    @property
    def entries(self) -> RepeatedCompositeFieldContainer[HloInputOutputAliasProto.AliasEntryProto]: ...
    def __init__(self, *, entries: Iterable[HloInputOutputAliasProto.AliasEntryProto] | None = ...) -> None: ...
class HloBufferDonorProto(Message):
    class BufferDonorEntryProto(Message):
        parameter_number: int
        @property
        def parameter_shape_index(self) -> RepeatedScalarFieldContainer[int]: ...
        def __init__(self, *, parameter_number: int | None = ..., parameter_shape_index: Iterable[int] | None = ...) -> None: ...
    @property
    def entries(self) -> RepeatedCompositeFieldContainer[HloBufferDonorProto.BufferDonorEntryProto]: ...
    def __init__(self, *, entries: Iterable[HloBufferDonorProto.BufferDonorEntryProto] | None = ...) -> None: ...
class CrossProgramPrefetch(Message):
    parameter: int
    @property
    def index(self) -> RepeatedScalarFieldContainer[int]: ...
    offset: int
    def __init__(self, *, parameter: int | None = ..., index: Iterable[int] | None = ..., offset: int | None = ...) -> None: ...
class StackFrameIndexProto(Message):
    class FileLocation(Message):
        file_name_id: int
        function_name_id: int
        line: int
        column: int
        end_line: int
        end_column: int
        def __init__(self, *, file_name_id: int | None = ..., function_name_id: int | None = ..., line: int | None = ..., column: int | None = ..., end_line: int | None = ..., end_column: int | None = ...) -> None: ...
    class StackFrame(Message):
        file_location_id: int
        parent_frame_id: int
        def __init__(self, *, file_location_id: int | None = ..., parent_frame_id: int | None = ...) -> None: ...
    @property
    def file_names(self) -> RepeatedScalarFieldContainer[str]: ...
    @property
    def function_names(self) -> RepeatedScalarFieldContainer[str]: ...
    @property
    def file_locations(self) -> RepeatedCompositeFieldContainer[StackFrameIndexProto.FileLocation]: ...
    @property
    def stack_frames(self) -> RepeatedCompositeFieldContainer[StackFrameIndexProto.StackFrame]: ...
    def __init__(self, *, file_names: Iterable[str] | None = ..., function_names: Iterable[str] | None = ..., file_locations: Iterable[StackFrameIndexProto.FileLocation] | None = ..., stack_frames: Iterable[StackFrameIndexProto.StackFrame] | None = ...) -> None: ...
class HloModuleProto(Message):
    ProfileType: ClassVar[EnumTypeWrapper]
    INVALID: ClassVar[int]
    FLAG: ClassVar[int]
    FUSION: ClassVar[int]
    LAYOUT: ClassVar[int]
    DOT: ClassVar[int]
    FLAGNET: ClassVar[int]
    SHARDING: ClassVar[int]
    SCHEDULE: ClassVar[int]
    class ProfileInfo(Message):
        profile_type: int
        relative_speedup: float
        profile_source: int
        compilation_event: int
        fingerprint: str
        profile_generation_strategy: int
        original_changelist: int
        changelist: int
        def __init__(self, *, profile_type: int | str | None = ..., relative_speedup: float | None = ..., profile_source: int | str | None = ..., compilation_event: int | str | None = ..., fingerprint: str | None = ..., profile_generation_strategy: int | str | None = ..., original_changelist: int | None = ..., changelist: int | None = ...) -> None: ...
    name: str
    entry_computation_name: str
    @property
    def computations(self) -> RepeatedCompositeFieldContainer[HloComputationProto]: ...
    @property
    def host_program_shape(self) -> ProgramShapeProto: ...
    id: int
    entry_computation_id: int
    @property
    def schedule(self) -> HloScheduleProto: ...
    @property
    def input_output_alias(self) -> HloInputOutputAliasProto: ...
    @property
    def cross_program_prefetches(self) -> RepeatedCompositeFieldContainer[CrossProgramPrefetch]: ...
    is_dynamic: bool
    @property
    def spmd_output_sharding(self) -> OpSharding: ...
    @property
    def profile_info(self) -> RepeatedCompositeFieldContainer[HloModuleProto.ProfileInfo]: ...
    @property
    def spmd_parameters_shardings(self) -> RepeatedCompositeFieldContainer[OpSharding]: ...
    @property
    def device_assignment(self) -> DeviceAssignmentProto: ...
    use_auto_spmd_partitioning: bool
    @property
    def stack_frame_index(self) -> StackFrameIndexProto: ...
    @property
    def buffer_donor(self) -> HloBufferDonorProto: ...
    @property
    def frontend_attributes(self) -> FrontendAttributes: ...
    original_value_recovery_table: bytes
    device_type: str
    @property
    def payloads(self) -> RepeatedScalarFieldContainer[bytes]: ...
    pjrt_id: int
    @property
    def debug_attributes(self) -> RepeatedScalarFieldContainer[bytes]: ...
    def __init__(self, *, name: str | None = ..., entry_computation_name: str | None = ..., computations: Iterable[HloComputationProto] | None = ..., host_program_shape: ProgramShapeProto | None = ..., id: int | None = ..., entry_computation_id: int | None = ..., schedule: HloScheduleProto | None = ..., input_output_alias: HloInputOutputAliasProto | None = ..., cross_program_prefetches: Iterable[CrossProgramPrefetch] | None = ..., is_dynamic: bool | None = ..., spmd_output_sharding: OpSharding | None = ..., profile_info: Iterable[HloModuleProto.ProfileInfo] | None = ..., spmd_parameters_shardings: Iterable[OpSharding] | None = ..., device_assignment: DeviceAssignmentProto | None = ..., use_auto_spmd_partitioning: bool | None = ..., stack_frame_index: StackFrameIndexProto | None = ..., buffer_donor: HloBufferDonorProto | None = ..., frontend_attributes: FrontendAttributes | None = ..., original_value_recovery_table: bytes | None = ..., device_type: str | None = ..., payloads: Iterable[bytes] | None = ..., pjrt_id: int | None = ..., debug_attributes: Iterable[bytes] | None = ...) -> None: ...
class LogicalBufferProto(Message):
    class Location(Message):
        instruction_name: str
        @property
        def shape_index(self) -> RepeatedScalarFieldContainer[int]: ...
        instruction_id: int
        def __init__(self, *, instruction_name: str | None = ..., shape_index: Iterable[int] | None = ..., instruction_id: int | None = ...) -> None: ...
    id: int
    size: int
    @property
    def defined_at(self) -> LogicalBufferProto.Location: ...
    color: int
    def __init__(self, *, id: int | None = ..., size: int | None = ..., defined_at: LogicalBufferProto.Location | None = ..., color: int | None = ...) -> None: ...
class BufferAllocationProto(Message):
    class Assigned(Message):
        logical_buffer_id: int
        offset: int
        size: int
        element_type: int
        def __init__(self, *, logical_buffer_id: int | None = ..., offset: int | None = ..., size: int | None = ..., element_type: int | str | None = ...) -> None: ...
    index: int
    size: int
    is_thread_local: bool
    is_entry_computation_parameter: bool
    parameter_number: int
    maybe_live_out: bool
    color: int
    @property
    def assigned(self) -> RepeatedCompositeFieldContainer[BufferAllocationProto.Assigned]: ...
    @property
    def parameter_shape_index(self) -> RepeatedScalarFieldContainer[int]: ...
    is_tuple: bool
    is_constant: bool
    is_parameter_aliased_with_output: bool
    def __init__(self, *, index: int | None = ..., size: int | None = ..., is_thread_local: bool | None = ..., is_entry_computation_parameter: bool | None = ..., parameter_number: int | None = ..., maybe_live_out: bool | None = ..., color: int | None = ..., assigned: Iterable[BufferAllocationProto.Assigned] | None = ..., parameter_shape_index: Iterable[int] | None = ..., is_tuple: bool | None = ..., is_constant: bool | None = ..., is_parameter_aliased_with_output: bool | None = ...) -> None: ...
class HeapSimulatorTrace(Message):
    class Event(Message):
        Kind: ClassVar[EnumTypeWrapper]
        ALLOC: ClassVar[int]
        FREE: ClassVar[int]
        SHARE_WITH: ClassVar[int]
        kind: int
        buffer_id: int
        computation_name: str
        instruction_name: str
        share_with_canonical_id: int
        def __init__(self, *, kind: int | str | None = ..., buffer_id: int | None = ..., computation_name: str | None = ..., instruction_name: str | None = ..., share_with_canonical_id: int | None = ...) -> None: ...
    @property
    def events(self) -> RepeatedCompositeFieldContainer[HeapSimulatorTrace.Event]: ...
    whole_module_simulation: bool
    buffer_allocation_index: int
    def __init__(self, *, events: Iterable[HeapSimulatorTrace.Event] | None = ..., whole_module_simulation: bool | None = ..., buffer_allocation_index: int | None = ...) -> None: ...
class HloModuleGroupProto(Message):
    name: str
    @property
    def hlo_modules(self) -> RepeatedCompositeFieldContainer[HloModuleProto]: ...
    def __init__(self, *, name: str | None = ..., hlo_modules: Iterable[HloModuleProto] | None = ...) -> None: ...
class MemoryUsageReportProto(Message):
    class AllocationEntry(Message):
        index: int
        size: int
        cumulative_size: int
        cumulative_percentage: float
        @property
        def defining_positions(self) -> RepeatedScalarFieldContainer[str]: ...
        hlo_text: str
        def __init__(self, *, index: int | None = ..., size: int | None = ..., cumulative_size: int | None = ..., cumulative_percentage: float | None = ..., defining_positions: Iterable[str] | None = ..., hlo_text: str | None = ...) -> None: ...
    class AllocationEntryInMemorySpace(Message):
        total_bytes: int
        memory_space_color: int
        @property
        def allocation_entries(self) -> RepeatedCompositeFieldContainer[MemoryUsageReportProto.AllocationEntry]: ...
        def __init__(self, *, total_bytes: int | None = ..., memory_space_color: int | None = ..., allocation_entries: Iterable[MemoryUsageReportProto.AllocationEntry] | None = ...) -> None: ...
    @property
    def memory_space_allocation_entries(self) -> RepeatedCompositeFieldContainer[MemoryUsageReportProto.AllocationEntryInMemorySpace]: ...
    def __init__(self, *, memory_space_allocation_entries: Iterable[MemoryUsageReportProto.AllocationEntryInMemorySpace] | None = ...) -> None: ...
class BufferAssignmentProto(Message):
    class BufferAlias(Message):
        source_buffer_id: int
        @property
        def location(self) -> LogicalBufferProto.Location: ...
        def __init__(self, *, source_buffer_id: int | None = ..., location: LogicalBufferProto.Location | None = ...) -> None: ...
    class PeakBuffers(Message):
        index: int
        @property
        def logical_buffer_ids(self) -> RepeatedScalarFieldContainer[int]: ...
        def __init__(self, *, index: int | None = ..., logical_buffer_ids: Iterable[int] | None = ...) -> None: ...
    @property
    def logical_buffers(self) -> RepeatedCompositeFieldContainer[LogicalBufferProto]: ...
    @property
    def buffer_aliases(self) -> RepeatedCompositeFieldContainer[BufferAssignmentProto.BufferAlias]: ...
    @property
    def buffer_allocations(self) -> RepeatedCompositeFieldContainer[BufferAllocationProto]: ...
    @property
    def heap_simulator_traces(self) -> RepeatedCompositeFieldContainer[HeapSimulatorTrace]: ...
    @property
    def peak_buffers(self) -> RepeatedCompositeFieldContainer[BufferAssignmentProto.PeakBuffers]: ...
    def __init__(self, *, logical_buffers: Iterable[LogicalBufferProto] | None = ..., buffer_aliases: Iterable[BufferAssignmentProto.BufferAlias] | None = ..., buffer_allocations: Iterable[BufferAllocationProto] | None = ..., heap_simulator_traces: Iterable[HeapSimulatorTrace] | None = ..., peak_buffers: Iterable[BufferAssignmentProto.PeakBuffers] | None = ...) -> None: ...
class HloProto(Message):
    @property
    def hlo_module(self) -> HloModuleProto: ...
    @property
    def buffer_assignment(self) -> BufferAssignmentProto: ...
    def __init__(self, *, hlo_module: HloModuleProto | None = ..., buffer_assignment: BufferAssignmentProto | None = ...) -> None: ...
class HloSnapshot(Message):
    @property
    def hlo(self) -> HloProto: ...
    @property
    def arguments(self) -> RepeatedCompositeFieldContainer[LiteralProto]: ...
    @property
    def result(self) -> LiteralProto: ...
    execution_platform: str
    def __init__(self, *, hlo: HloProto | None = ..., arguments: Iterable[LiteralProto] | None = ..., result: LiteralProto | None = ..., execution_platform: str | None = ...) -> None: ...
class HloInputs(Message):
    class LiteralDescriptor(Message):
        version: int
        argument_size_bytes: int
        def __init__(self, *, version: int | None = ..., argument_size_bytes: int | None = ...) -> None: ...
    @property
    def arguments(self) -> RepeatedCompositeFieldContainer[LiteralProto]: ...
    @property
    def arguments_descriptors(self) -> RepeatedCompositeFieldContainer[HloInputs.LiteralDescriptor]: ...
    def __init__(self, *, arguments: Iterable[LiteralProto] | None = ..., arguments_descriptors: Iterable[HloInputs.LiteralDescriptor] | None = ...) -> None: ...
class HloUnoptimizedSnapshot(Message):
    @property
    def hlo_module(self) -> HloModuleProto: ...
    @property
    def partitions(self) -> RepeatedCompositeFieldContainer[HloInputs]: ...
    version: int
    def __init__(self, *, hlo_module: HloModuleProto | None = ..., partitions: Iterable[HloInputs] | None = ..., version: int | None = ...) -> None: ...
class HloModuleMetadataProto(Message):
    canonical_module_id: int
    module_group_name: str
    original_module_id: int
    @property
    def partitioned_module_ids(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def pass_metadata(self) -> RepeatedCompositeFieldContainer[HloPassMetadata]: ...
    def __init__(self, *, canonical_module_id: int | None = ..., module_group_name: str | None = ..., original_module_id: int | None = ..., partitioned_module_ids: Iterable[int] | None = ..., pass_metadata: Iterable[HloPassMetadata] | None = ...) -> None: ...
class HloPassMetadata(Message):
    pass_id: int
    pass_name: str
    pipeline_name: str
    @property
    def dump_filenames(self) -> RepeatedScalarFieldContainer[str]: ...
    module_changed: bool
    module_id: int
    @property
    def module_group_module_ids(self) -> RepeatedScalarFieldContainer[int]: ...
    start_timestamp_usec: int
    end_timestamp_usec: int
    @property
    def custom_metadata(self) -> AnyMessage: ...
    @property
    def kv_metrics(self) -> RepeatedCompositeFieldContainer[KeyValueMetric]: ...
    def __init__(self, *, pass_id: int | None = ..., pass_name: str | None = ..., pipeline_name: str | None = ..., dump_filenames: Iterable[str] | None = ..., module_changed: bool | None = ..., module_id: int | None = ..., module_group_module_ids: Iterable[int] | None = ..., start_timestamp_usec: int | None = ..., end_timestamp_usec: int | None = ..., custom_metadata: AnyMessage | None = ..., kv_metrics: Iterable[KeyValueMetric] | None = ...) -> None: ...
class DebugAttributesProto(Message):
    DebugLogModeProto: ClassVar[EnumTypeWrapper]
    NONE: ClassVar[int]
    DEFAULT: ClassVar[int]
    FUSION_DEBUGGER: ClassVar[int]
    NO_FUSION: ClassVar[int]
    GUARANTEED: ClassVar[int]
    log_mode: int
    callback_id: int
    op_id: int
    partitioned: bool
    operands_sharding: str
    def __init__(self, *, log_mode: int | str | None = ..., callback_id: int | None = ..., op_id: int | None = ..., partitioned: bool | None = ..., operands_sharding: str | None = ...) -> None: ...
class DebugLogBackendConfigProto(Message):
    @property
    def debug_attributes_config(self) -> DebugAttributesProto: ...
    def __init__(self, *, debug_attributes_config: DebugAttributesProto | None = ...) -> None: ...
class DebugAttributeTableEntryProto(Message):
    @property
    def original_array(self) -> OriginalArrayProto: ...
    @property
    def debug_attributes(self) -> RepeatedCompositeFieldContainer[DebugAttributesProto]: ...
    def __init__(self, *, original_array: OriginalArrayProto | None = ..., debug_attributes: Iterable[DebugAttributesProto] | None = ...) -> None: ...
class OriginalValueRecoveryTableProto(Message):
    class Entry(Message):
        @property
        def old_original_array(self) -> OriginalArrayProto: ...
        @property
        def new_original_array(self) -> OriginalArrayProto: ...
        @property
        def recovery_module(self) -> HloModuleProto: ...
        def __init__(self, *, old_original_array: OriginalArrayProto | None = ..., new_original_array: OriginalArrayProto | None = ..., recovery_module: HloModuleProto | None = ...) -> None: ...
    @property
    def entries(self) -> RepeatedCompositeFieldContainer[OriginalValueRecoveryTableProto.Entry]: ...
    def __init__(self, *, entries: Iterable[OriginalValueRecoveryTableProto.Entry] | None = ...) -> None: ...
