"""Scalars of NKI 0.7: typed integers that exist only while the kernel runs.

They are registers with fewer operators, which wrap at 32 bits. The counter of ``nl.fori_loop`` is a
scalar that keeps the operators of registers, since kernels for NKI 0.6 use them.

Source: nki.isa.NkiScalar and the deep dive on scalars (nki/api, NKI 0.7.0).
"""

from __future__ import annotations

from collections.abc import Callable

from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.base.errors import NkiTypeError, fail
from nki_lang.frontend.builder import active
from nki_lang.frontend.registers import VirtualRegister, is_integer, register_alu
from nki_lang.ir import Register

__all__ = ["NkiScalar", "loop_counter", "refuse_scalar"]

_SOURCE = "nisa.NkiScalar (nki/api, NKI 0.7.0)"
_OPERATORS = {"add": "add", "sub": "subtract", "mul": "multiply"}
_REGISTER_OPERATORS = (
    "floordiv", "mod", "and", "or", "xor", "lshift", "rshift",
)  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def refuse_scalar(message: str, remedy: str) -> None:
    """Raise NKI-SCALAR, a TypeError, at the user's line."""
    fail(message, "NKI-SCALAR", remedy, _SOURCE, NkiTypeError)


class NkiScalar(VirtualRegister):
    """An integer of the device; made by ``nisa.scalar_load`` and by ``nl.fori_loop``.

    ``+``, ``-`` and ``*`` with an integer or another scalar are instructions that make a new scalar
    and wrap. It is a bound of ``nl.fori_loop``, an index, and a ``scalar_offset``.

    Args:
        state: the :class:`~nki_lang.ir.Register`.
        dtype: the type of the value: int32, also when None.
        is_comparison: it is the result of a comparison, which nothing takes.
    """

    __slots__ = ("dtype", "has_register_operators", "is_comparison")

    dtype: DType
    is_comparison: bool
    has_register_operators: bool

    def __init__(self, state: Register, dtype: object = None, is_comparison: bool = False) -> None:
        super().__init__(state, frozen=True)
        self.dtype = dtype_of("int32" if dtype is None else dtype)
        self.is_comparison = is_comparison
        self.has_register_operators = False

    def __repr__(self) -> str:
        builder = active()
        if builder is not None and builder.eager:
            return f"NkiScalar({self.register.name}={builder.register_value(self.register)})"
        return f"NkiScalar({self.register.name})"

    def __neg__(self) -> NkiScalar:
        return _scalar(register_alu("subtract", 0, self), self)

    def __pos__(self) -> NkiScalar:
        return _scalar(register_alu("add", self, 0), self)

    def __hash__(self) -> int:
        return object.__hash__(self)


def loop_counter(counter: VirtualRegister) -> NkiScalar:
    """Return the counter of a loop as a scalar with the operators of registers."""
    scalar = NkiScalar(counter.register)
    scalar.has_register_operators = True
    return scalar


def _scalar(result: VirtualRegister, *operands: object) -> NkiScalar:
    scalar = NkiScalar(result.register)
    scalar.has_register_operators = any(
        isinstance(operand, NkiScalar) and operand.has_register_operators for operand in operands
    )
    return scalar


Method = Callable[[NkiScalar, object], object]


def _arithmetic(op: str, inherited: Method, *, reverse: bool) -> Method:
    def method(self: NkiScalar, operand: object) -> object:
        if isinstance(operand, VirtualRegister) and not isinstance(operand, NkiScalar):
            if self.has_register_operators:
                return inherited(self, operand)
            refuse_scalar(f"{self!r} and {operand!r} do not compute",
                          "load both with nisa.scalar_load, or both with nisa.register_load")  # fmt: skip
        if not is_integer(operand):
            return inherited(self, operand)
        pair = (operand, self) if reverse else (self, operand)
        return _scalar(register_alu(op, *pair), self, operand)

    return method


def _of_registers(name: str, inherited: Method) -> Method:
    def method(self: NkiScalar, operand: object) -> object:
        permitted = self.has_register_operators or (
            isinstance(operand, NkiScalar) and operand.has_register_operators
        )
        if permitted or not is_integer(operand):
            return inherited(self, operand)
        if name in _COMPARISONS:
            refuse_scalar(f"{self!r} is compared: nothing takes the result",
                          "compare in a register: nisa.register_load, then nl.while_loop")  # fmt: skip
        return refuse_scalar(f"scalars have no operator {name}",
                             "they have + - *; registers of nisa.register_load have more")  # fmt: skip

    return method


for _name, _op in _OPERATORS.items():
    for _method, _is_reverse in ((f"__{_name}__", False), (f"__r{_name}__", True)):
        _inherited = getattr(VirtualRegister, _method)
        setattr(NkiScalar, _method, _arithmetic(_op, _inherited, reverse=_is_reverse))
for _name in _REGISTER_OPERATORS:
    for _method in (f"__{_name}__", f"__r{_name}__"):
        setattr(NkiScalar, _method, _of_registers(_name, getattr(VirtualRegister, _method)))
for _name in _COMPARISONS:
    _method = f"__{_name}__"
    setattr(NkiScalar, _method, _of_registers(_name, getattr(VirtualRegister, _method)))
