"""Registers as instructions use them."""

from __future__ import annotations

from typing import Any, SupportsIndex

from nki_lang.errors import fail
from nki_lang.frontend.builder import current
from nki_lang.frontend.registers import VirtualRegister, as_operand
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.isa.issue import issue
from nki_lang.isa.table import TABLE

__all__ = ["register_alloc", "register_load", "register_move", "register_store"]


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A fresh register, holding ``x`` (an integer, or a one-element tensor) or nothing yet."""
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


def register_move(dst: VirtualRegister, src: Any) -> None:
    """``dst = src``, an integer or another register."""
    issue(TABLE["register_move"], (dst, src if isinstance(src, VirtualRegister) else _integer(src)))


def register_load(dst: VirtualRegister, src: NkiTensor) -> None:
    """``dst =`` the one element of ``src``."""
    issue(TABLE["register_load"], (dst, src))


def register_store(dst: NkiTensor, src: Any) -> None:
    """The one element of ``dst =`` the register ``src``."""
    issue(TABLE["register_store"], (dst, src))


def _integer(value: Any) -> int:
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        fail(f"a register holds a 32-bit integer, not {value!r}", "NKI-REGISTER",
             "pass an int; nisa.register_load takes the element of a tensor")  # fmt: skip
    number = int(value)
    if not -(1 << 31) <= number < 1 << 32:
        fail(f"{number} does not fit into a 32-bit register", "NKI-REGISTER",
             "-2**31 to 2**32 - 1 fit")  # fmt: skip
    return number
