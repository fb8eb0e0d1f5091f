"""Registers as instructions use them."""

from __future__ import annotations

from typing import SupportsIndex

from nki_lang.base.errors import NkiTypeError, fail
from nki_lang.frontend.builder import current
from nki_lang.frontend.registers import VirtualRegister, as_operand
from nki_lang.frontend.scalars import NkiScalar
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.isa.issue import issue
from nki_lang.isa.table import TABLE

__all__ = [
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "scalar_load",
    "scalar_store",
]

_SCALARS = "nisa.scalar_load (nki/api, NKI 0.7.0)"


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A fresh register, holding ``x`` (an integer, or a one-element tensor) or nothing yet.

    Args:
        x: an integer, a tensor of one element, or None for no value yet.

    Returns:
        VirtualRegister: the register.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE.

    Engines: GpSimd or Scalar or Sync or Tensor or Vector on trn1, trn2, trn3.
    Source: nisa.register_alloc (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        counter = nisa.register_alloc(3)
        first = a[:, nl.ds(counter, 4)]
    """
    builder = current()
    register = VirtualRegister(builder.new_register())
    if isinstance(x, VirtualRegister):
        x = as_operand(x)  # type: ignore[assignment]
    elif x is not None and not isinstance(x, NkiTensor):
        x = _integer(x)
    if isinstance(x, NkiTensor) and x.size != 1:
        fail(f"register_alloc takes a one-element tensor, not {x!r}", "NKI-REGISTER",
             "index one element")  # fmt: skip
    value = x.access if isinstance(x, NkiTensor) else x
    builder.emit("register_alloc", {"dst": register.register, "x": value})
    return register


def register_move(dst: VirtualRegister, src: int | VirtualRegister) -> None:
    """``dst = src``, an integer or another register.

    Args:
        dst: the register that is written.
        src: an integer or a register.

    Returns:
        None.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE,
            NKI-REGISTER-FROZEN.

    Rules:
        copy the counter into a register of your own and change that (NKI-REGISTER-FROZEN).

    Engines: GpSimd or Scalar or Sync or Tensor or Vector on trn1, trn2, trn3.
    Source: nisa.register_move (nki/api/nki/isa, NKI 0.6.0).

    Example::

        counter = nisa.register_alloc(0)
        nisa.register_move(dst=counter, src=5)
    """
    issue(TABLE["register_move"], (dst, src if isinstance(src, VirtualRegister) else _integer(src)))


def register_load(dst: VirtualRegister, src: NkiTensor) -> None:
    """``dst =`` the one element of ``src``.

    Args:
        dst: the register that is written.
        src: tensor read, in SBUF or HBM.

    Returns:
        None.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-REGISTER-FROZEN, NKI-REGISTER.

    Rules:
        copy the counter into a register of your own and change that (NKI-REGISTER-FROZEN).
        the tensor has one element (NKI-REGISTER).

    Engines: GpSimd or Scalar or Sync or Tensor or Vector on trn1, trn2, trn3.
    Source: nisa.register_load (nki/api/nki/isa, NKI 0.6.0).

    Example::

        count = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        nisa.memset(count, 3)
        turns = nisa.register_alloc()
        nisa.register_load(dst=turns, src=count)
    """
    issue(TABLE["register_load"], (dst, src))


def register_store(dst: NkiTensor, src: int | VirtualRegister) -> None:
    """The one element of ``dst =`` the register ``src``.

    Args:
        dst: tensor written, in SBUF or HBM.
        src: the register that is read.

    Returns:
        None.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-REGISTER.

    Rules:
        the tensor has one element (NKI-REGISTER).

    Engines: GpSimd or Scalar or Sync or Tensor or Vector on trn1, trn2, trn3.
    Source: nisa.register_store (nki/api/nki/isa, NKI 0.6.0).

    Example::

        count = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        nisa.register_store(dst=count, src=nisa.register_alloc(3))
    """
    issue(TABLE["register_store"], (dst, src))


def scalar_load(src: NkiTensor) -> NkiScalar:
    """A new scalar with the one element of ``src``.

    Args:
        src: tensor of shape (1, 1) and dtype int32, in SBUF or HBM.

    Returns:
        NkiScalar: the scalar.

    Raises:
        NkiValidationError: code ``NKI-SCALAR``: another dtype (scalars of int64 are not
            supported); NKI-OUTSIDE, NKI-OPERAND, NKI-BUFFER, NKI-REGISTER.

    Source: nisa.scalar_load (nki/api, NKI 0.7.0).

    Example::

        count = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        nisa.memset(count, 3)
        turns = nisa.scalar_load(src=count)
    """
    if isinstance(src, NkiTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        _check_scalar_dtype(src)
    register = VirtualRegister(current().new_register("scalar"))
    register_load(register, src)
    return NkiScalar(register.register, "int32")


def scalar_store(dst: NkiTensor, value: NkiScalar) -> None:
    """The one element of ``dst =`` the scalar ``value``.

    Args:
        dst: tensor of shape (1, 1) and dtype int32, in SBUF or HBM.
        value: the scalar; a Python integer is refused, nisa.memset writes it.

    Returns:
        None.

    Raises:
        NkiValidationError: code ``NKI-SCALAR``: another dtype, or the value is no scalar;
            NKI-OUTSIDE, NKI-OPERAND, NKI-BUFFER, NKI-REGISTER.

    Source: nisa.scalar_store (nki/api, NKI 0.7.0).

    Example::

        count = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
        nisa.memset(count, 3)
        nisa.scalar_store(dst=count, value=nisa.scalar_load(src=count) + 1)
    """
    if not isinstance(value, NkiScalar):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(f"scalar_store stores a scalar, not {value!r}", "NKI-SCALAR",
             "write a number with nisa.memset, a register with nisa.register_store", _SCALARS,
             NkiTypeError)  # fmt: skip
    if isinstance(dst, NkiTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        _check_scalar_dtype(dst)
    register_store(dst, value)


def _check_scalar_dtype(tensor: NkiTensor) -> None:
    if tensor.dtype.name == "int64":
        fail(f"tensor {tensor.name!r} is int64: scalars of 64 bits are not supported", "NKI-SCALAR",
             "use an int32 tensor where 32 bits hold the value", _SCALARS)  # fmt: skip
    if tensor.dtype.name != "int32":
        fail(f"tensor {tensor.name!r} is {tensor.dtype}", "NKI-SCALAR",
             "scalars are loaded from int32 and stored to int32", _SCALARS)  # fmt: skip


def _integer(value: object) -> int:
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        fail(f"a register holds a 32-bit integer, not {value!r}", "NKI-REGISTER",
             "pass an int; nisa.register_load takes the element of a tensor")  # fmt: skip
    number = int(value)
    if not -(1 << 31) <= number < 1 << 32:
        fail(f"{number} does not fit into a 32-bit register", "NKI-REGISTER",
             "-2**31 to 2**32 - 1 fit")  # fmt: skip
    return number
