"""A generated HLO module."""

from __future__ import annotations

from programs import Program, Value

__all__ = ["ELEMENTS", "HloProgram", "typed"]

ELEMENTS = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int8": "s8", "int16": "s16",
    "int32": "s32", "int64": "s64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "bool": "pred", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2", "complex64": "c64",
    "int4": "s4", "uint4": "u4",
}  # fmt: skip


def typed(value: Value) -> str:
    """A value's type as HLO's text has it."""
    return f"{ELEMENTS[value.dtype]}[{','.join(map(str, value.shape))}]"


class HloProgram(Program):
    """A program as HLO's text."""

    def source(self) -> str:
        """The module."""
        called = dict.fromkeys(text for one in self.statements for text in one.called)
        types = {one.value.name: typed(one.value) for one in self.arguments}
        lines = [
            f"  {name} = {kind} parameter({at})" for at, (name, kind) in enumerate(types.items())
        ]
        for one in self.statements:
            types[one.made.name] = typed(one.made)
            gap = "" if one.text.startswith("{") else " "  # a layout
            lines.append(f"  {one.made.name} = {typed(one.made)}{gap}{one.text}")
        shapes = ", ".join(types[name] for name in self.results)
        root = f"  ROOT result = ({shapes}) tuple({', '.join(self.results)})"
        body = "\n".join([*lines, root])
        return "\n".join(["HloModule random", *called, f"ENTRY main {{\n{body}\n}}\n"])
