"""Shapes as text, in XLA's notation: ``f32[2,<=3]{1,0:T(8,128)}``, ``(s32[], token[])``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hlo_tools.errors import HloTextError
from hlo_tools.types.element_types import BY_NAME, BY_NUMBER

if TYPE_CHECKING:
    from hlo_tools.schema.messages import LayoutProto, ShapeProto

__all__ = ["parse_shape_into", "print_layout", "print_shape"]

_TUPLE, _TOKEN, _OPAQUE, _BUFFER = 13, 17, 14, 34
_COMBINE = -(1 << 63)
"""The size that means "merge with the next dimension" in a tile; text writes ``*``."""
_DEPTH = 64
_INDEX_EVERY = 5
"""Every fifth part of a long tuple is numbered in a comment."""
_DIM_LEVELS = ("D", "C", "S", "H")
_Part = tuple[str, Callable[["LayoutProto"], str]]


# Printing


def print_shape(
    proto: ShapeProto, *, layouts: bool = True, cache: dict[bytes, str] | None = None
) -> str:
    """The text of a ``ShapeProto``.

    Args:
        cache: texts of arrays by their bytes, for many shapes that are printed alike; the text is
            taken from there or put there.
    """
    if proto.element_type == _TUPLE:
        return _print_tuple(proto, layouts, cache)
    if proto.element_type == _BUFFER and proto.tuple_shapes:
        return f"b({print_shape(proto.tuple_shapes[0], layouts=layouts)})"
    if cache is None:
        return _print_array(proto, layouts)
    key = proto.SerializeToString()
    text = cache.get(key)
    if text is None:
        text = cache[key] = _print_array(proto, layouts)
    return text


def _print_tuple(proto: ShapeProto, layouts: bool, cache: dict[bytes, str] | None) -> str:
    text = ""
    for number, element in enumerate(proto.tuple_shapes):
        if number:
            text += f", /*index={number}*/" if number % _INDEX_EVERY == 0 else ", "
        text += print_shape(element, layouts=layouts, cache=cache)
    return f"({text})"


def _print_array(proto: ShapeProto, layouts: bool) -> str:
    element = BY_NUMBER.get(proto.element_type)
    name = element.name if element else f"type{proto.element_type}"
    text = f"{name}[{_print_dimensions(proto)}]"
    if not layouts or not proto.HasField("layout"):
        return text
    layout = print_layout(proto.layout)
    return text if layout == "{}" and not proto.dimensions else text + layout


def _print_dimensions(proto: ShapeProto) -> str:
    flags = list(proto.is_dynamic_dimension)
    if True not in flags:
        return ",".join(map(str, proto.dimensions))
    marks = [*flags, *[False] * len(proto.dimensions)]
    return ",".join(
        ("<=" if mark else "") + ("?" if size < 0 else str(size))
        for size, mark in zip(proto.dimensions, marks, strict=False)
    ).replace("<=?", "?")


def print_layout(layout: LayoutProto) -> str:
    """The text of a ``LayoutProto`` with its braces."""
    names = {field.name for field, _ in layout.ListFields()}
    details = "".join([print_part(layout) for name, print_part in _LAYOUT_PARTS if name in names])
    order = ",".join(map(str, layout.minor_to_major))
    return f"{{{order}:{details}}}" if details else f"{{{order}}}"


def _print_dim_levels(layout: LayoutProto) -> str:
    marks: list[str] = []
    levels: Sequence[int] = layout.dim_level_types
    for number, level in enumerate(levels):
        mark = _DIM_LEVELS[level] if 0 <= level < len(_DIM_LEVELS) else "?"
        unique = layout.dim_unique[number] if number < len(layout.dim_unique) else True
        ordered = layout.dim_ordered[number] if number < len(layout.dim_ordered) else True
        marks.append(mark + ("" if unique else "+") + ("" if ordered else "~"))
    return f"D({','.join(marks)})"


def _print_tiles(layout: LayoutProto) -> str:
    tiles = (
        ",".join("*" if size == _COMBINE else str(size) for size in tile.dimensions)
        for tile in layout.tiles
    )
    return "T" + "".join(f"({tile})" for tile in tiles)


def _print_splits(layout: LayoutProto) -> str:
    splits = (
        f"({split.dimension}:{','.join(map(str, split.split_indices))})"
        for split in layout.split_configs
    )
    return "SC" + "".join(splits)


def _number(mark: str, field: str, silent: tuple[int, ...]) -> _Part:
    def part(layout: LayoutProto) -> str:
        value = getattr(layout, field)
        return "" if value in silent else f"{mark}({value})"

    return field, part


def _type(mark: str, field: str) -> _Part:
    def part(layout: LayoutProto) -> str:
        value = getattr(layout, field)
        return f"{mark}({BY_NUMBER[value].name})" if value in BY_NUMBER and value else ""

    return field, part


def _print_physical(layout: LayoutProto) -> str:
    return f"P({print_shape(layout.physical_shape)})"


_LAYOUT_PARTS: tuple[_Part, ...] = (
    ("dim_level_types", _print_dim_levels),
    ("tiles", _print_tiles),
    _number("L", "tail_padding_alignment_in_elements", (0, 1)),
    _type("#", "index_primitive_type"),
    _type("*", "pointer_primitive_type"),
    _number("E", "element_size_in_bits", (0,)),
    _number("S", "memory_space", (0,)),
    ("split_configs", _print_splits),
    ("physical_shape", _print_physical),
    _number("M", "dynamic_shape_metadata_prefix_bytes", (0,)),
)
"""Printers of the layout after the colon, in XLA's order, and the fields that they print."""


# Parsing

_TOKEN_RE = re.compile(
    r"(?:\s|/\*.*?\*/)*(?:(<=|[A-Za-z][A-Za-z0-9]*|-?\d+|[][(){},:*#+~?])|$)", re.DOTALL
)


def parse_shape_into(text: str, proto: ShapeProto) -> None:
    """Parse a shape into an empty ``ShapeProto``.

    Raises:
        HloTextError: it is none; the place is the column (counted from 1) and what was expected.
    """
    reader = _Reader(text)
    _parse_shape(reader, proto, 0)
    if reader.word:
        raise reader.error("the end of the shape")


class _Reader:
    """Words of a shape's text; ``word`` is the next one, "" at the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0
        self.word = ""
        self.column = 1
        self.next()

    def next(self) -> str:
        """Step over the current word and return it."""
        passed = self.word
        match = _TOKEN_RE.match(self.text, self.end)
        if match is None:
            self.column = self.end + 1
            raise self.error("a shape", actual=self.text[self.end : self.end + 8].strip())
        self.word = match.group(1) or ""
        self.column = (match.start(1) if self.word else len(self.text)) + 1
        self.end = match.end()
        return passed

    def take(self, word: str) -> bool:
        if self.word != word:
            return False
        self.next()
        return True

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise self.error(f"'{word}'")

    def number(self) -> int:
        if not re.fullmatch(r"-?\d+", self.word) or abs(int(self.word)) >= 1 << 63:
            raise self.error("a number of at most 64 bits")
        return int(self.next())

    def numbers(self, end: str) -> list[int]:
        """Numbers with commas between, up to and with ``end``."""
        numbers: list[int] = []
        while not self.take(end):
            if numbers:
                self.expect(",")
            numbers.append(self.number())
        return numbers

    def error(self, expected: str, actual: str | None = None) -> HloTextError:
        what = actual if actual is not None else (self.word or "the end")
        return HloTextError(
            f"expected {expected}, found {what!r} in {self.text[:80]!r}",
            code="HLO-SHAPE-TEXT",
            place=f"column {self.column}",
            remedy="shapes look like f32[2,3]{1,0}, s32[], (f32[4], token[])",
        )


def _parse_shape(reader: _Reader, proto: ShapeProto, depth: int) -> None:
    if depth > _DEPTH:
        raise reader.error(f"tuples nested at most {_DEPTH} deep")
    if reader.take("("):
        proto.element_type = _TUPLE
        while not reader.take(")"):
            if proto.tuple_shapes:
                reader.expect(",")
            _parse_shape(reader, proto.tuple_shapes.add(), depth + 1)
        return
    if reader.word == "b":
        reader.next()
        reader.expect("(")
        proto.element_type = _BUFFER
        _parse_shape(reader, proto.tuple_shapes.add(), depth + 1)
        reader.expect(")")
        return
    element = BY_NAME.get(reader.word.lower())
    if element is None or element.number == _TUPLE:
        raise reader.error("an element type")
    reader.next()
    proto.element_type = element.number
    reader.expect("[")
    _parse_dimensions(reader, proto)
    if reader.word == "{":
        _parse_layout(reader, proto)
    elif element.dtype is not None:
        _default_layout(proto)


def _default_layout(proto: ShapeProto) -> None:
    proto.layout.minor_to_major.extend(range(len(proto.dimensions) - 1, -1, -1))
    proto.layout.tail_padding_alignment_in_elements = 1


def _parse_dimensions(reader: _Reader, proto: ShapeProto) -> None:
    while not reader.take("]"):
        if proto.dimensions:
            reader.expect(",")
        if reader.take("?"):
            proto.dimensions.append(_COMBINE)
            proto.is_dynamic_dimension.append(True)
            continue
        bound = reader.take("<=")
        size = reader.number()
        if size < 0:
            raise reader.error("a size of at least 0", actual=str(size))
        proto.dimensions.append(size)
        proto.is_dynamic_dimension.append(bound)


def _parse_layout(reader: _Reader, proto: ShapeProto) -> None:
    reader.expect("{")
    layout = proto.layout
    layout.tail_padding_alignment_in_elements = 1
    while reader.word not in (":", "}"):
        if layout.minor_to_major:
            reader.expect(",")
        layout.minor_to_major.append(reader.number())
    if sorted(layout.minor_to_major) != list(range(len(proto.dimensions))):
        raise reader.error("a layout with each dimension once")
    if reader.take(":"):
        while reader.word != "}":
            _parse_layout_part(reader, layout)
    reader.expect("}")


def _parse_layout_part(reader: _Reader, layout: LayoutProto) -> None:
    parse = _LAYOUT_PARSERS.get(reader.word)
    if parse is None:
        raise reader.error(f"one of {' '.join(_LAYOUT_PARSERS)} or '}}'")
    reader.next()
    reader.expect("(")
    parse(reader, layout)


def _parse_tiles(reader: _Reader, layout: LayoutProto) -> None:
    while True:
        tile = layout.tiles.add()
        while not reader.take(")"):
            if tile.dimensions:
                reader.expect(",")
            tile.dimensions.append(_COMBINE if reader.take("*") else reader.number())
        if not reader.take("("):
            return


def _parse_dim_levels(reader: _Reader, layout: LayoutProto) -> None:
    while not reader.take(")"):
        if layout.dim_level_types:
            reader.expect(",")
        if reader.word not in _DIM_LEVELS:
            raise reader.error("one of D C S H")
        layout.dim_level_types.append(_DIM_LEVELS.index(reader.next()))
        layout.dim_unique.append(not reader.take("+"))
        layout.dim_ordered.append(not reader.take("~"))


def _parse_splits(reader: _Reader, layout: LayoutProto) -> None:
    while True:
        split = layout.split_configs.add(dimension=reader.number())
        reader.expect(":")
        split.split_indices.extend(reader.numbers(")"))
        if not reader.take("("):
            return


def _parse_physical(reader: _Reader, layout: LayoutProto) -> None:
    _parse_shape(reader, layout.physical_shape, 1)
    reader.expect(")")


def _number_into(field: str) -> Callable[[_Reader, LayoutProto], None]:
    def parse(reader: _Reader, layout: LayoutProto) -> None:
        setattr(layout, field, reader.number())
        reader.expect(")")

    return parse


def _type_into(field: str) -> Callable[[_Reader, LayoutProto], None]:
    def parse(reader: _Reader, layout: LayoutProto) -> None:
        if reader.word not in BY_NAME:
            raise reader.error("an element type")
        setattr(layout, field, BY_NAME[reader.next()].number)
        reader.expect(")")

    return parse


_LAYOUT_PARSERS: dict[str, Callable[[_Reader, LayoutProto], None]] = {
    "D": _parse_dim_levels,
    "T": _parse_tiles,
    "L": _number_into("tail_padding_alignment_in_elements"),
    "#": _type_into("index_primitive_type"),
    "*": _type_into("pointer_primitive_type"),
    "E": _number_into("element_size_in_bits"),
    "S": _number_into("memory_space"),
    "SC": _parse_splits,
    "P": _parse_physical,
    "M": _number_into("dynamic_shape_metadata_prefix_bytes"),
}
