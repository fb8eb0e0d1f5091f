"""Python's operators, NumPy's functions and array methods on tiles: each names what to write.

A tile stands for memory of the device. Computing on it takes an instruction with a place to
write to, so ``a + b`` is not defined; the error names the function of the
language and the instruction that compute it (nki/get-started/nki-language-guide.rst, Tensor
Values). Only the eager interpreter has contents; it returns them for printing and assertions.
"""

from __future__ import annotations

import linecache
from math import prod
from typing import Any, NoReturn

from nki_lang.base.errors import NkiAttributeError, NkiTypeError, warn_at_caller
from nki_lang.base.source import SourceLocation, caller_location
from nki_lang.frontend.builder import active
from nki_lang.frontend.operators import BY_NAME
from nki_lang.ir import Access

__all__ = ["TileArithmetic", "missing_method"]

_GUIDE = "nki/get-started/nki-language-guide.rst, Tensor Values"

_BINARY = {
    "add": ("+", "add"), "sub": ("-", "subtract"), "mul": ("*", "multiply"),
    "truediv": ("/", "divide"), "floordiv": ("//", ""), "mod": ("%", "mod"),
    "divmod": ("divmod()", ""), "pow": ("**", "power"), "matmul": ("@", "matmul"),
    "and": ("&", "bitwise_and"), "or": ("|", "bitwise_or"), "xor": ("^", "bitwise_xor"),
    "lshift": ("<<", "left_shift"), "rshift": (">>", "right_shift"),
}  # fmt: skip
_COMPARISONS = {
    "lt": ("<", "less"), "le": ("<=", "less_equal"), "gt": (">", "greater"),
    "ge": (">=", "greater_equal"), "eq": ("==", "equal"), "ne": ("!=", "not_equal"),
}  # fmt: skip
_UNARY = {
    "neg": ("-", "negative"), "pos": ("+", "copy"), "abs": ("abs()", "abs"),
    "invert": ("~", "invert"), "round": ("round()", ""), "floor": ("math.floor()", "floor"),
    "ceil": ("math.ceil()", "ceil"), "trunc": ("math.trunc()", "trunc"),
}  # fmt: skip
_NUMPY = {
    "true_divide": "divide", "absolute": "abs", "concatenate": "", "amax": "max", "amin": "min",
    "remainder": "mod", "float_power": "power", "arctan2": "", "sum": "sum", "clip": "minimum",
}  # fmt: skip
_METHODS = {
    "T": "nl.transpose(tile), or tile.permute(...) for free dimensions",
    "astype": "nl.copy(tile, dtype=...), or nisa.tensor_copy into a tile of that dtype",
    "to": "nl.copy(tile, dtype=...), or nisa.tensor_copy into a tile of that dtype",
    "item": "nisa.register_load puts one element into a register",
    "tolist": "print(tile) shows its contents in nki.simulate",
    "numpy": "print(tile) shows its contents in nki.simulate",
    "fill": "nisa.memset(tile, value)",
    "copy": "nl.copy(tile), or nisa.tensor_copy(dst, src)",
    "clone": "nl.copy(tile), or nisa.tensor_copy(dst, src)",
    "flatten": "tile.flatten_dims(first, last) or tile.reshape(shape)",
    "ravel": "tile.flatten_dims(first, last) or tile.reshape(shape)",
    "unsqueeze": "tile.expand_dim(dim)",
    "squeeze": "tile.squeeze_dim(dim)",
    "itemsize": "tile.dtype.itemsize",
    "nbytes": "tile.size * tile.dtype.itemsize",
    "device": "tile.buffer",
}


def _describe(value: object) -> str:
    if isinstance(value, TileArithmetic):
        tile: Any = value
        return f"tensor {tile.name!r} {tile.dtype}{list(tile.shape)}"
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def _refuse(message: str, remedy: str) -> NoReturn:
    raise NkiTypeError(
        message, code="NKI-ARITHMETIC", location=caller_location(3), remedy=remedy, source=_GUIDE
    )


def _instead(function: str, operand: object, swapped: bool = False) -> str:
    """Return the function and the instruction that compute the result of an operator."""
    if not function:
        return "write it with instructions of nki.isa, such as nisa.tensor_tensor"
    if function == "matmul":
        return "nl.matmul(x, y) creates a new tile in PSUM; nisa.nc_matmul writes into one"
    call = f"nl.{function}(x, y) creates a new tile"
    if isinstance(operand, TileArithmetic):
        return f"{call}; nisa.tensor_tensor(dst, x, y, op=nl.{function}) writes into one"
    arguments = "operand0=x, reverse0=True" if swapped else "operand0=y"
    tile = "y" if swapped else "x"
    return (
        f"{call}; nisa.tensor_scalar(dst, {tile}, op0=nl.{function}, {arguments}) writes into one"
    )


def _binary(symbol: str, function: str, swapped: bool) -> Any:
    def method(self: Any, operand: object) -> NoReturn:
        left, right = (operand, self) if swapped else (self, operand)
        _refuse(
            f"Python's {symbol} is not supported on tensors: {_describe(left)} {symbol}"
            f" {_describe(right)}",
            _instead(function, operand, swapped),
        )

    return method


def _comparison(symbol: str, function: str) -> Any:
    def method(self: Any, operand: object) -> Any:
        computes = isinstance(operand, (TileArithmetic, int, float)) or hasattr(
            operand, "__array__"
        )
        if symbol in ("==", "!=") and (self is operand or not computes):
            return NotImplemented  # None, enum members and the like: identity decides
        remedy = _instead(function, operand)
        if isinstance(operand, TileArithmetic):
            remedy += "; `is` tests whether both are the same tensor"
        _refuse(
            f"Python's {symbol} is not supported between tensors: {_describe(self)} {symbol}"
            f" {_describe(operand)}",
            remedy,
        )

    return method


def _unary(symbol: str, function: str) -> Any:
    def method(self: Any, *_: object) -> NoReturn:
        instead = (
            f"nl.{function}(x) creates a new tile; nisa.activation or nisa.tensor_scalar writes"
        )
        _refuse(
            f"Python's {symbol} is not supported on tensors: {_describe(self)}",
            f"{instead} into one" if function else _instead("", None),
        )

    return method


class TileArithmetic:
    """Operations of Python and NumPy that tensors refuse, with the call to write instead.

    Every refusal is an :class:`~nki_lang.base.errors.NkiTypeError` (``NKI-ARITHMETIC``,
    ``NKI-TENSOR-VALUE``) at the user's line.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    @property
    def access(self) -> Access:
        """The access pattern of the tile."""
        raise NotImplementedError

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: object, **_: object) -> NoReturn:
        other_inputs = [entry for entry in inputs if entry is not self]
        self._refuse_numpy(ufunc.__name__, other_inputs[0] if other_inputs else None, method)

    def __array_function__(
        self, func: Any, types: object, args: object, kwargs: object
    ) -> NoReturn:
        self._refuse_numpy(func.__name__, None, "__call__")

    def _refuse_numpy(self, name: str, operand: object, method: str) -> NoReturn:
        public = _NUMPY.get(name, name)
        if method != "__call__":
            remedy = "nisa.tensor_reduce reduces free dimensions"
        elif public in BY_NAME or public in ("where", "transpose", "matmul", "broadcast_to"):
            remedy = f"write nl.{public}(...), which creates a new tile"
            if operand is not None:
                remedy = _instead(public, operand)
        else:
            remedy = _instead("", None)
        _refuse(f"np.{name} is not supported on tensors: {_describe(self)}", remedy)

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        values = self._contents("an array", False)
        return values if dtype is None else values.astype(dtype)

    def __bool__(self) -> bool:
        """A whole tensor is true, as in the vendor's front end: a test for its presence.

        Source: ``KLR/Trace/Types.lean``, ``isTrue``. A part of one, a tile of one element, and a
        tile in an ``assert`` read contents.
        """
        tensor: Any = self
        is_complete = tensor.shape == tensor.storage.shape
        if is_complete and tensor.on_chip:
            is_complete = prod(tensor.shape) > 1 and not _asserts(caller_location(1))
        if not is_complete:
            return bool(self._contents("a condition").all())
        warn_at_caller(
            f"[NKI-TENSOR-VALUE] {_describe(self)} is true as a condition whatever it holds;"
            " write `is not None` to test whether it was passed"
        )
        return True

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __index__(self) -> int:
        return int(self._number("an index, a range bound or a size"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def _number(self, use: str) -> Any:
        """The one element, in the eager interpreter."""
        values = self._contents(use)
        if values.size != 1:
            _refuse(f"{_describe(self)} was used as {use}: it has {values.size} elements",
                    "index one element")  # fmt: skip
        return values.reshape(-1)[0]

    def _contents(self, use: str, warned: bool = True) -> Any:
        """The values, when an eager interpreter runs: kernels cannot compute with them."""
        builder = active()
        location = caller_location(2)
        message = (
            f"the contents of {_describe(self)} were used as {use}, but they are only known while"
            " the kernel runs"
        )
        if builder is None or not builder.eager:
            raise NkiTypeError(
                message,
                code="NKI-TENSOR-VALUE",
                location=location,
                remedy="select with nisa.tensor_copy_predicated or nl.where, or load a flag with"
                " nisa.register_load and use nl.while_loop",
                source=_GUIDE,
            )
        if warned and not _asserts(location):
            warn_at_caller(
                f"[NKI-TENSOR-VALUE] {message}; nki.simulate reads them, a kernel that is traced"
                " stops here"
            )
        return builder.tensor_value(self.access)

    def __iter__(self) -> NoReturn:
        self._refuse_walk(
            "iterated over", "iterate over range(tensor.shape[0]) and index the tensor"
        )

    def __reversed__(self) -> NoReturn:
        self._refuse_walk(
            "iterated over", "iterate over range(tensor.shape[0]) and index the tensor"
        )

    def __contains__(self, value: object) -> NoReturn:
        self._refuse_walk("searched with `in`", "compare with nl.equal and reduce with nl.max")

    def __delitem__(self, key: object) -> NoReturn:
        self._refuse_walk(
            "changed in size", "create a tensor of the required shape with nl.ndarray"
        )

    def _refuse_walk(self, what: str, remedy: str) -> NoReturn:
        raise NkiTypeError(
            f"{_describe(self)} cannot be {what}",
            code="NKI-TENSOR-VALUE",
            location=caller_location(3),
            remedy=remedy,
            source=_GUIDE,
        )


def _asserts(location: SourceLocation | None) -> bool:
    """True for a line with ``assert``: the documents check values so in simulated kernels."""
    return location is not None and linecache.getline(*location[:2]).lstrip().startswith("assert")


for _name, (_symbol, _function) in _BINARY.items():
    setattr(TileArithmetic, f"__{_name}__", _binary(_symbol, _function, False))
    setattr(TileArithmetic, f"__r{_name}__", _binary(_symbol, _function, True))
for _name, (_symbol, _function) in _COMPARISONS.items():
    setattr(TileArithmetic, f"__{_name}__", _comparison(_symbol, _function))
for _name, (_symbol, _function) in _UNARY.items():
    setattr(TileArithmetic, f"__{_name}__", _unary(_symbol, _function))


def missing_method(tile: object, name: str) -> NoReturn:
    """``tile.astype`` and the like: an AttributeError with the remedy."""
    remedy = _METHODS.get(name, "")
    if not remedy and name in BY_NAME:
        remedy = f"call nl.{name}(tile, ...)"
    raise NkiAttributeError(
        f"tensors have no attribute {name!r} ({_describe(tile)})",
        code="NKI-ATTRIBUTE",
        location=caller_location(3),
        remedy=remedy
        or "the methods of tensors are views of the same memory: see help(nl.NkiTensor)",
        source="NkiTensor (nki/api/nki/language)",
    )
