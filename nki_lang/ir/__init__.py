"""The kernel IR: the values that front ends create and that the compiler and the runtime read."""

from nki_lang.ir.types import (
    Access,
    Block,
    Constant,
    Engine,
    ForLoop,
    Instruction,
    KernelIR,
    NoReorder,
    Operand,
    Register,
    Statement,
    Tensor,
    WhileLoop,
    is_group,
    walk,
)

__all__ = [
    "Access",
    "Block",
    "Constant",
    "Engine",
    "ForLoop",
    "Instruction",
    "KernelIR",
    "NoReorder",
    "Operand",
    "Register",
    "Statement",
    "Tensor",
    "WhileLoop",
    "is_group",
    "walk",
]
