"""Options of the printer: one value, with XLA's presets."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["CANONICAL", "DEFAULT", "FINGERPRINT", "PRESETS", "SHORT_PARSABLE", "PrintOptions"]


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """Options of the printer (names and presets as XLA's ``HloPrintOptions``).

    Attributes:
        large_constants: print constants of more than ten elements; else ``{...}``.
        metadata: print ``metadata={...}``.
        backend_config: print ``backend_config=``.
        operand_shapes: print the shape before each operand.
        result_shape: print the shape before the opcode.
        layouts: print layouts in shapes.
        program_shape: print ``(parameters) -> result`` behind a computation's name.
        percent: names start with ``%``.
        control_dependencies: print ``control-predecessors``.
        ids: keep the numbers behind the dots of names.
        extra_attributes: print the attributes of opcodes.
        frames: print the tables of source frames when the module has them; without them, stack
            frames are written into the metadata as ``source_file`` and ``source_line``.
        header: print ``HloModule ...`` and its attributes.
        indent: columns before an instruction.
    """

    large_constants: bool = True
    metadata: bool = True
    backend_config: bool = True
    operand_shapes: bool = False
    result_shape: bool = True
    layouts: bool = True
    program_shape: bool = True
    percent: bool = True
    control_dependencies: bool = True
    ids: bool = True
    extra_attributes: bool = True
    frames: bool = True
    header: bool = True
    indent: int = 2


DEFAULT = PrintOptions()
SHORT_PARSABLE = replace(
    DEFAULT, metadata=False, backend_config=False, percent=False, program_shape=False
)
CANONICAL = replace(
    DEFAULT, metadata=False, backend_config=False, program_shape=False, operand_shapes=True,
    ids=False, frames=False,
)  # fmt: skip
FINGERPRINT = replace(
    CANONICAL, large_constants=True, control_dependencies=False, header=False, percent=False
)
PRESETS = {
    "default": DEFAULT,
    "short_parsable": SHORT_PARSABLE,
    "canonical": CANONICAL,
    "fingerprint": FINGERPRINT,
}
