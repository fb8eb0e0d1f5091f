"""The kernel IR: what a traced kernel is, whoever made it and whoever reads it."""

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
