"""``neuronxcc.nki.language``: the public functions of NKI beta 1.

Signatures: nki/api/nki/language (SDK 2.26); parameters that were positional in 2.20 still may be.
Functions on tiles return new tiles, see :mod:`nki_lang.beta1.results`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

import numpy as np

from nki_lang.base import dtypes as _dtypes
from nki_lang.base.dtypes import finfo as finfo
from nki_lang.base.errors import fail, missing_attribute
from nki_lang.base.memory import MemoryRegion
from nki_lang.beta1 import creation, elementwise, movement, products, reductions, selection
from nki_lang.beta1.assignment import LoopValue
from nki_lang.beta1.creation import par_dim, shared_constant, shared_identity_matrix
from nki_lang.beta1.index import arange, mgrid
from nki_lang.beta1.kernel import nc, num_programs, program_id, program_ndim, spmd_dim
from nki_lang.beta1.mask import mask_boxes
from nki_lang.beta1.operands import require_tile
from nki_lang.beta1.signature import checked_call
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import AxisLike, ElementLike, MaskLike, OperatorLike, ShapeLike, Value
from nki_lang.frontend.slices import ds
from nki_lang.language import creation as _creation
from nki_lang.language import program as _program
from nki_lang.language.tile_size import tile_size

bool_ = _dtypes.BY_NAME["bool"]
int8, int16, int32 = (_dtypes.BY_NAME[name] for name in ("int8", "int16", "int32"))
uint8, uint16, uint32 = (_dtypes.BY_NAME[name] for name in ("uint8", "uint16", "uint32"))
float16, float32, bfloat16 = (_dtypes.BY_NAME[n] for n in ("float16", "float32", "bfloat16"))
tfloat32 = _dtypes.BY_NAME["tfloat32"]
float8_e4m3, float8_e5m2 = (_dtypes.BY_NAME[name] for name in ("float8_e4m3", "float8_e5m2"))

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
hbm = "hbm"
private_hbm, shared_hbm = MemoryRegion.private_hbm, MemoryRegion.shared_hbm


class fp32:
    """Limits of float32."""

    min = -3.4028234663852886e38


class bfp16:
    """Limits of bfloat16."""

    min = -builtins.float("inf")


# -- creation ---------------------------------------------------------------------------------


@checked_call
def ndarray(shape: ShapeLike, dtype: ElementLike, buffer: Value = None, name: str = "") -> Value:
    """A new tensor with undefined contents; in SBUF unless ``buffer`` says otherwise."""
    return creation.make(shape, dtype, buffer, name)


@checked_call
def zeros(shape: ShapeLike, dtype: ElementLike, buffer: Value = None, name: str = "") -> Value:
    """A new tensor of zeros."""
    return creation.make(shape, dtype, buffer, name, 0)


@checked_call
def ones(shape: ShapeLike, dtype: ElementLike, buffer: Value = None, name: str = "") -> Value:
    """A new tensor of ones."""
    return creation.make(shape, dtype, buffer, name, 1)


@checked_call
def full(
    shape: ShapeLike,
    fill_value: Value,
    dtype: ElementLike,
    buffer: Value = None,
    name: str = "",
) -> Value:
    """A new tensor filled with one value."""
    return creation.make(shape, dtype, buffer, name, fill_value)


@checked_call
def zeros_like(a: Value, dtype: ElementLike = None, buffer: Value = None, name: str = "") -> Value:
    """A new tensor of zeros with the shape of ``a``."""
    return creation.make(a.shape, dtype or a.dtype, _like(a, buffer), name, 0)


@checked_call
def empty_like(a: Value, dtype: ElementLike = None, buffer: Value = None, name: str = "") -> Value:
    """A new tensor with the shape of ``a`` and undefined contents."""
    return creation.make(a.shape, dtype or a.dtype, _like(a, buffer), name)


def _like(a: Value, buffer: Value) -> Value:
    if buffer is not None:
        return buffer
    return a.buffer if getattr(a, "on_chip", True) else shared_hbm


# -- movement ---------------------------------------------------------------------------------


@checked_call
def load(
    src: Value,
    mask: MaskLike = None,
    dtype: ElementLike = None,
    mode: Value = None,
) -> Tile:
    """A new tile in SBUF with the elements of an HBM tensor."""
    return movement.load(src, mask, dtype, mode)


@checked_call
def store(dst: Value, value: Value, mask: MaskLike = None, mode: Value = None) -> None:
    """Write a tile, or a number, into an HBM tensor."""
    movement.store(dst, value, mask, mode)


@checked_call
def load_transpose2d(src: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """A new tile in SBUF with the transpose of a two-dimensional HBM tensor."""
    return movement.load_transpose2d(src, mask, dtype)


@checked_call
def copy(src: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """A copy of a tile, in SBUF."""
    return movement.copy(src, dtype, mask)


@checked_call
def transpose(x: Value, dtype: ElementLike = None, mask: MaskLike = None) -> Tile:
    """A tile of two dimensions with its axes swapped."""
    return movement.transpose(x, dtype, mask)


@checked_call
def broadcast_to(src: Value, shape: ShapeLike) -> Tile:
    """The elements repeated along dimensions of extent 1."""
    return movement.broadcast(src, tuple(shape))


@checked_call
def expand_dims(data: Value, axis: int) -> Tile:
    """A view with one more dimension of extent 1."""
    return require_tile(data, "nl.expand_dims").expand_dims(axis)


@checked_call
def static_cast(input_data: Value, dtype: ElementLike) -> Value:
    """A tile, or a NumPy array, in another type."""
    return input_data.astype(dtype)


@checked_call
def matmul(x: Value, y: Value, transpose_x: bool = False, mask: MaskLike = None) -> Tile:
    """``x @ y``, or ``x.T @ y`` with ``transpose_x``; float32 in PSUM."""
    return products.matmul(x, y, transpose_x, mask)


# -- element-wise functions -------------------------------------------------------------------


def _binary(name: str, doc: str) -> Callable[..., Value]:
    def function(x: Value, y: Value, dtype: ElementLike = None, mask: MaskLike = None) -> Value:
        if dtype in (bool, np.bool_):
            dtype = "uint8"
        return elementwise.binary(name, x, y, dtype, mask)

    return _named(function, name, doc)


def _unary(name: str, doc: str) -> Callable[..., Value]:
    def function(x: Value, dtype: ElementLike = None, mask: MaskLike = None) -> Value:
        if dtype in (bool, np.bool_):
            dtype = "uint8"
        return elementwise.unary(name, x, dtype, mask)

    return _named(function, name, doc)


def _named(function: Callable[..., Value], name: str, doc: str) -> Callable[..., Value]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return checked_call(function)


add = _binary("add", "``x + y``.")
subtract = _binary("subtract", "``x - y``.")
multiply = _binary("multiply", "``x * y``.")
divide = _binary("divide", "``x / y``.")
maximum = _binary("maximum", "The larger of ``x`` and ``y``.")
minimum = _binary("minimum", "The smaller of ``x`` and ``y``.")
power = _binary("power", "``x ** y``.")
mod = _binary("mod", "Remainder of ``x / y`` with the sign of ``y``.")
fmod = _binary("fmod", "Remainder of ``x / y`` with the sign of ``x``.")
equal = _binary("equal", "1 where ``x == y``, else 0.")
not_equal = _binary("not_equal", "1 where ``x != y``, else 0.")
less = _binary("less", "1 where ``x < y``, else 0.")
less_equal = _binary("less_equal", "1 where ``x <= y``, else 0.")
greater = _binary("greater", "1 where ``x > y``, else 0.")
greater_equal = _binary("greater_equal", "1 where ``x >= y``, else 0.")
logical_and = _binary("logical_and", "1 where both are not zero, else 0.")
logical_or = _binary("logical_or", "1 where at least one is not zero, else 0.")
logical_xor = _binary("logical_xor", "1 where exactly one is not zero, else 0.")
bitwise_and = _binary("bitwise_and", "``x & y`` of integers.")
bitwise_or = _binary("bitwise_or", "``x | y`` of integers.")
bitwise_xor = _binary("bitwise_xor", "``x ^ y`` of integers.")
left_shift = _binary("left_shift", "``x << y`` of integers.")
right_shift = _binary("right_shift", "``x >> y`` of integers.")

abs = _unary("abs", "Magnitude.")
negative = _unary("negative", "``-x``.")
sign = _unary("sign", "-1, 0 or 1 by the sign.")
square = _unary("square", "``x * x``.")
sqrt = _unary("sqrt", "Square root.")
rsqrt = _unary("rsqrt", "``1 / sqrt(x)``.")
reciprocal = _unary("reciprocal", "``1 / x``.")
exp = _unary("exp", "``e ** x``.")
log = _unary("log", "Natural logarithm.")
sin = _unary("sin", "Sine.")
cos = _unary("cos", "Cosine.")
tan = _unary("tan", "Tangent.")
tanh = _unary("tanh", "Hyperbolic tangent.")
arctan = _unary("arctan", "Inverse tangent.")
sigmoid = _unary("sigmoid", "``1 / (1 + exp(-x))``.")
relu = _unary("relu", "``max(x, 0)``.")
gelu = _unary("gelu", "Gaussian error linear unit.")
gelu_dx = _unary("gelu_dx", "Derivative of gelu.")
gelu_apprx_tanh = _unary("gelu_apprx_tanh", "Gaussian error linear unit by tanh.")
gelu_apprx_sigmoid = _unary("gelu_apprx_sigmoid", "``x * sigmoid(1.702 x)``.")
silu = _unary("silu", "``x * sigmoid(x)``.")
silu_dx = _unary("silu_dx", "Derivative of silu.")
softplus = _unary("softplus", "``log(1 + exp(x))``.")
mish = _unary("mish", "``x * tanh(softplus(x))``.")
erf = _unary("erf", "Error function.")
erf_dx = _unary("erf_dx", "Derivative of erf.")
ceil = _unary("ceil", "Smallest integer that is not smaller.")
floor = _unary("floor", "Largest integer that is not larger.")
trunc = _unary("trunc", "The integer part.")
invert = _unary("invert", "Bitwise NOT of integers.")
logical_not = _unary("logical_not", "1 where ``x`` is zero, else 0.")


@checked_call
def where(
    condition: Value,
    x: Value,
    y: Value,
    dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Tile:
    """``x`` where the condition is not zero, else ``y``."""
    return elementwise.where(condition, x, y, dtype, mask)


# -- reductions -------------------------------------------------------------------------------


def _reduction(name: str, doc: str) -> Callable[..., Value]:
    def function(
        x: Value,
        axis: AxisLike,
        dtype: ElementLike = None,
        mask: MaskLike = None,
        keepdims: bool = False,
    ) -> Tile:
        return reductions.reduce(name, x, axis, dtype, mask, keepdims, function=f"nl.{name}")

    return _named(function, name, doc)


sum = _reduction("sum", "Sum along free axes.")
max = _reduction("max", "Maximum along free axes.")
min = _reduction("min", "Minimum along free axes.")
prod = _reduction("prod", "Product along free axes.")


@checked_call
def all(x: Value, axis: AxisLike, dtype: ElementLike = bool, mask: MaskLike = None) -> Tile:
    """1 where all elements along free axes are not zero."""
    return reductions.reduce("logical_and", x, axis, dtype, mask, function="nl.all")


@checked_call
def mean(
    x: Value,
    axis: AxisLike,
    dtype: ElementLike = None,
    mask: MaskLike = None,
    keepdims: bool = False,
) -> Tile:
    """Arithmetic mean along free axes."""
    return reductions.mean(x, axis, dtype, mask, keepdims)


@checked_call
def var(x: Value, axis: AxisLike, dtype: ElementLike = None, mask: MaskLike = None) -> Tile:
    """Variance of the population along free axes."""
    return reductions.var(x, axis, dtype, mask)


@checked_call
def softmax(
    x: Value,
    axis: AxisLike,
    dtype: ElementLike = None,
    compute_dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Tile:
    """Softmax along free axes."""
    return reductions.softmax(x, axis, dtype, compute_dtype, mask)


@checked_call
def rms_norm(
    x: Value,
    w: Value,
    axis: AxisLike,
    n: int,
    epsilon: float = 1e-06,
    dtype: ElementLike = None,
    compute_dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Tile:
    """``x / RMS(x) * w`` with the mean square taken over ``n`` values."""
    return reductions.rms_norm(x, w, axis, n, epsilon, dtype, compute_dtype, mask)


@checked_call
def loop_reduce(
    x: Value,
    op: OperatorLike,
    loop_indices: Value,
    dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Value:
    """A value that the loop folds into the tile it is assigned to, whose type ``dtype`` names."""
    return LoopValue(require_tile(x, "nl.loop_reduce"), op, mask, dtype)


@checked_call
def rand(shape: ShapeLike, dtype: ElementLike = np.float32) -> Tile:
    """A new tile of random numbers, uniform in [0, 1)."""
    return Tile(_creation.rand(tuple(shape), dtype))


@checked_call
def random_seed(seed: Value, mask: MaskLike = None) -> None:
    """Set the seed of the random numbers: an integer, or a tile of one element."""
    if not mask_boxes(mask, (1, 1)):
        return
    tile = seed if isinstance(seed, Tile) else creation.full((1, 1), int(seed), "uint32")
    _creation.random_seed(tile.region())


@checked_call
def dropout(x: Value, rate: Value, dtype: ElementLike = None, mask: MaskLike = None) -> Tile:
    """Elements replaced by zero with probability ``rate``; the others are not scaled."""
    return selection.dropout(x, rate, mask, dtype)


@checked_call
def gather_flattened(
    data: Value, indices: Value, mask: MaskLike = None, dtype: ElementLike = None
) -> Tile:
    """Elements of each partition by index into its flattened free axes."""
    return selection.gather_flattened(data, indices, mask, dtype)


@checked_call
def atomic_rmw(dst: Value, value: Value, op: OperatorLike, mask: MaskLike = None) -> None:
    """``dst = op(dst, value)`` in HBM; values of repeated rows are all added."""
    selection.copy_by_dma(dst, value, mask, op)


# -- loops and the rest -----------------------------------------------------------------------


def _loop(name: str, doc: str) -> Callable[..., range]:
    def function(*args: Value) -> range:
        return range(*[int(value) for value in args])

    return _named(function, name, doc)


affine_range = _loop("affine_range", "A loop without carried dependencies; it is unrolled.")
sequential_range = _loop("sequential_range", "A loop in order; it is unrolled.")
static_range = _loop("static_range", "A loop that is unrolled.")


@checked_call
def device_print(prefix: str, x: Value, mask: MaskLike = None) -> None:
    """Print a prefix and the values of a tile while the kernel runs."""
    tile = x if isinstance(x, Tile) else require_tile(x, "nl.device_print")
    boxes = mask_boxes(mask, tile.shape)
    if len(boxes) > 1:
        fail(f"nl.device_print of {len(boxes)} separate pieces of a tile", "NKI-BETA1-MASK",
             "print the elements of one box: a condition on each axis alone",
             "nl.device_print (beta 1)")  # fmt: skip
    for box in boxes:
        _program.device_print(prefix, tile.region(box))


__all__ = [
    "abs",
    "add",
    "affine_range",
    "all",
    "arange",
    "arctan",
    "atomic_rmw",
    "bfloat16",
    "bfp16",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bool_",
    "broadcast_to",
    "ceil",
    "copy",
    "cos",
    "device_print",
    "divide",
    "dropout",
    "ds",
    "empty_like",
    "equal",
    "erf",
    "erf_dx",
    "exp",
    "expand_dims",
    "finfo",
    "float8_e4m3",
    "float8_e5m2",
    "float16",
    "float32",
    "floor",
    "fmod",
    "fp32",
    "full",
    "gather_flattened",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_tanh",
    "gelu_dx",
    "greater",
    "greater_equal",
    "hbm",
    "int8",
    "int16",
    "int32",
    "invert",
    "left_shift",
    "less",
    "less_equal",
    "load",
    "load_transpose2d",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "loop_reduce",
    "matmul",
    "max",
    "maximum",
    "mean",
    "mgrid",
    "min",
    "minimum",
    "mish",
    "mod",
    "multiply",
    "nc",
    "ndarray",
    "negative",
    "not_equal",
    "num_programs",
    "ones",
    "par_dim",
    "power",
    "private_hbm",
    "prod",
    "program_id",
    "program_ndim",
    "psum",
    "rand",
    "random_seed",
    "reciprocal",
    "relu",
    "right_shift",
    "rms_norm",
    "rsqrt",
    "sbuf",
    "sequential_range",
    "shared_constant",
    "shared_hbm",
    "shared_identity_matrix",
    "sigmoid",
    "sign",
    "silu",
    "silu_dx",
    "sin",
    "softmax",
    "softplus",
    "spmd_dim",
    "sqrt",
    "square",
    "static_cast",
    "static_range",
    "store",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "tfloat32",
    "tile_size",
    "transpose",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "var",
    "where",
    "zeros",
    "zeros_like",
]  # fmt: skip

__getattr__ = missing_attribute("neuronxcc.nki.language", __all__, {})
