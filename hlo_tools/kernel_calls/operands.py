"""Operands of a kernel call: constants, aliases, a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hlo_tools._messages import counted
from hlo_tools.errors import HloFileError, HloVerifyError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import KERNEL_TARGET
from hlo_tools.kernels.backend_config import BackendConfig, encode
from hlo_tools.kernels.location import allow
from hlo_tools.types.literal import literal_of
from hlo_tools.types.shape import Shape, array_shape, tuple_shape
from nki_lang import klir
from nki_lang.base.errors import NkiError
from nki_lang.ir import KernelIR, Tensor

__all__ = [
    "add_constants",
    "call_fields",
    "check_fits",
    "config_of",
    "misfit",
    "read_kernel",
    "result_shape",
    "shape_of",
]


def read_kernel(path: str | Path) -> KernelIR:
    """The kernel in a ``.klir`` file, which calls of this process may name from then on.

    Raises:
        HloFileError: missing or damaged (HLO-KERNEL-MISSING, HLO-KERNEL-DAMAGED).
    """
    if not Path(path).is_file():
        raise HloFileError(
            "there is no such kernel file", code="HLO-KERNEL-MISSING", place=str(path),
            remedy="nki-hlo extract writes kernels of a script as .klir files",
        )  # fmt: skip
    allow(path)
    try:
        return klir.read(path)
    except NkiError as error:
        raise HloFileError(
            f"the kernel file is damaged: {error}", code="HLO-KERNEL-DAMAGED", place=str(path)
        ) from error


def config_of(kernel: KernelIR, binary: str) -> BackendConfig:
    """The configuration of a call of ``kernel``: its inputs, then its constants."""
    constants = (constant.tensor.name for constant in kernel.constants)
    return BackendConfig(
        binary=binary,
        input_names=[*(tensor.name for tensor in kernel.inputs), *constants],
        output_names=[tensor.name for tensor in kernel.outputs],
        func_name=kernel.name,
        grid=kernel.grid,
        has_collectives=kernel.has_collectives,
    )


def shape_of(tensor: Tensor) -> Shape:
    """The HLO shape of a kernel's tensor."""
    return array_shape(tensor.dtype.dtype, tensor.shape)


def check_fits(
    kernel: KernelIR, operands: list[Shape], results: list[Shape], location: str = ""
) -> None:
    """Refuse a kernel whose inputs or outputs have other shapes or types than a call.

    Raises:
        HloVerifyError: HLO-KERNEL-OPERAND or HLO-KERNEL-RESULT, with the first that differs.
    """
    for what, tensors, shapes in (
        ("operand", kernel.inputs, operands), ("result", kernel.outputs, results),
    ):  # fmt: skip
        if len(tensors) != len(shapes):
            raise misfit(
                what, f"has {counted(len(tensors), what)}, not {len(shapes)}", kernel, location
            )
        for tensor, shape in zip(tensors, shapes, strict=True):
            if shape.dtype != tensor.dtype.dtype or shape.dimensions != tuple(tensor.shape):
                stated = f"{shape_of(tensor)}"
                raise misfit(
                    what, f"has its {what} {tensor.name} as {stated}, not {shape}", kernel, location
                )


def misfit(what: str, reason: str, kernel: KernelIR, location: str) -> HloVerifyError:
    """The error of a kernel whose ``what`` (operand or result) is not as a call wants it."""
    return HloVerifyError(
        f"kernel {kernel.name} {reason}",
        code=f"HLO-KERNEL-{what.upper()}",
        place=location,
        remedy="use a kernel that was traced for these shapes and types",
    )


def add_constants(kernel: KernelIR, into: Computation) -> list[Instruction]:
    """Return the kernel's constants as instructions; a call passes them after its inputs."""
    added: list[Instruction] = []
    for constant in kernel.constants:
        literal = literal_of(constant.value)
        view = into.add("constant", literal.shape, name=constant.tensor.name)
        view.proto.literal.CopyFrom(literal.proto)
        added.append(view)
    return added


def call_fields(kernel: KernelIR, config: BackendConfig, single: bool) -> dict[str, Any]:
    """Fields of the custom call.

    Args:
        single: the result is one array and not a tuple of one.
    """
    return {
        "custom_call_target": KERNEL_TARGET,
        "backend_config": encode(config).encode(),
        "output_operand_aliasing": [
            {"operand_index": operand, "output_shape_index": [] if single else [result]}
            for result, operand in sorted(kernel.aliases.items())
        ],
    }


def result_shape(kernel: KernelIR) -> Shape:
    """The result of a call of the kernel: one array, or a tuple of several."""
    shapes = [shape_of(tensor) for tensor in kernel.outputs]
    return shapes[0] if len(shapes) == 1 else tuple_shape(shapes)
