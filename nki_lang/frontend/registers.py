"""Registers: scalar values that exist only while the kernel runs."""

from __future__ import annotations

from typing import Any, NoReturn, SupportsIndex, cast

from nki_lang.base.errors import NkiTypeError, fail
from nki_lang.frontend.builder import active, current
from nki_lang.frontend.objects import NKIObject
from nki_lang.frontend.while_header import register_truth
from nki_lang.ir import Register

__all__ = ["VirtualRegister", "as_operand", "is_integer", "register_alu"]

_SOURCE = "nisa.VirtualRegister (nki/api/nki/isa)"


class VirtualRegister(NKIObject):
    """A 32-bit register of the engines' sequencers.

    Made by ``nisa.register_alloc`` and by the device loops. Arithmetic on it (``reg + 1``) is an
    instruction and makes a new register. ``while reg:`` is a loop on the device.

    Args:
        state: the :class:`~nki_lang.ir.Register`; a fresh one when None.
        frozen: it is the counter of a loop and may not be written.
    """

    __slots__ = ("frozen", "register")

    def __init__(self, state: Register | None = None, frozen: bool = False) -> None:
        self.register = current().new_register() if state is None else state
        self.frozen = frozen

    def __repr__(self) -> str:
        builder = active()
        if builder is not None and builder.eager:
            return f"VirtualRegister({self.register.name}={builder.register_value(self.register)})"
        return f"VirtualRegister({self.register.name})"

    def __bool__(self) -> bool:
        return register_truth(self.register)

    def __int__(self) -> int:
        return self._value("int()")

    def __index__(self) -> int:
        return self._value("an index, a range bound or a size")

    def __float__(self) -> float:
        return float(self._value("float()"))

    def _value(self, use: str) -> int:
        builder = current()
        if builder.eager:
            return builder.register_value(self.register)
        fail(
            f"register {self.register.name} was used as {use}, but its value is only known while"
            " the kernel runs",
            "NKI-REGISTER-VALUE",
            "use nl.fori_loop, nl.while_loop or nl.dynamic_range for loops, and select, nl.ds or"
            " .ap(scalar_offset=...) for addresses",
            _SOURCE,
            NkiTypeError,
        )
        return None

    __hash__ = object.__hash__


def is_integer(value: object) -> bool:
    """True for what registers compute with; a bool is not an integer."""
    return not isinstance(value, bool) and hasattr(type(value), "__index__")


def as_operand(value: object) -> Register | int:
    """A register or an integer as the kernel IR holds it."""
    if isinstance(value, VirtualRegister):
        return value.register
    if not is_integer(value):
        fail(f"{value!r} is neither a register nor an integer", "NKI-REGISTER",
             "pass an int or what nisa.register_alloc returned")  # fmt: skip
    return int(cast("SupportsIndex", value))


def register_alu(op: str, left: object, right: object) -> VirtualRegister:
    """Emit ``left <op> right`` and return the register of the result."""
    builder = current()
    result = builder.new_register()
    builder.emit(
        "register_alu",
        {"dst": result, "op": op, "src0": as_operand(left), "src1": as_operand(right)},
    )
    return VirtualRegister(result)


def _binary(op: str, reverse: bool) -> Any:
    def method(self: VirtualRegister, operand: object) -> Any:
        if not is_integer(operand):
            if operand is None or op in ("equal", "not_equal"):
                return NotImplemented
            fail(
                f"register {self.register.name} and {operand!r} do not compute: registers hold"
                " 32-bit integers",
                "NKI-REGISTER",
                "use integers; compute floats in a tile with nisa.tensor_scalar",
                _SOURCE,
                NkiTypeError,
            )
        return register_alu(op, operand, self) if reverse else register_alu(op, self, operand)

    return method


def _missing(symbol: str) -> Any:
    def method(self: VirtualRegister, *_: object) -> NoReturn:
        fail(
            f"registers have no {symbol}",
            "NKI-REGISTER",
            "they have + - * // % & | ^ << >> and comparisons; -reg is 0 - reg",
            _SOURCE,
            NkiTypeError,
        )

    return method


for _method, _op in {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "floordiv": "floor_divide",
    "mod": "mod",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}.items():
    setattr(VirtualRegister, f"__{_method}__", _binary(_op, reverse=False))
    setattr(VirtualRegister, f"__r{_method}__", _binary(_op, reverse=True))
for _method, _op in {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}.items():
    setattr(VirtualRegister, f"__{_method}__", _binary(_op, reverse=False))
for _method, _op in {
    "truediv": "/",
    "rtruediv": "/",
    "pow": "**",
    "rpow": "**",
    "neg": "unary -",
    "pos": "unary +",
    "abs": "abs()",
    "invert": "~",
    "divmod": "divmod()",
    "round": "round()",
}.items():
    setattr(VirtualRegister, f"__{_method}__", _missing(_op))
