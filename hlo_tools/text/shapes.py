"""Shapes in text: ``f32[2,<=3]{1,0:T(8,128)S(1)}``, tuples, tokens, buffers."""

from __future__ import annotations

import re
from typing import Any

from hlo_tools.schema import LayoutProto, ShapeProto
from hlo_tools.text.cursor import Cursor
from hlo_tools.types.element_types import BY_NAME

BUFFER = 34
"""PrimitiveType of a buffer; it has no name in text (a buffer is written ``b(shape)``)."""

__all__ = ["PRIMITIVE_TYPES", "TYPE_NAMES", "ShapeReader"]

Message = Any

PRIMITIVE_TYPES: dict[str, int] = {
    name: element.number for name, element in BY_NAME.items() if name not in ("tuple", "buffer")
}
"""Name in text -> number."""

TYPE_NAMES: dict[int, str] = {element.number: name for name, element in BY_NAME.items()}
"""Number -> name in text."""

_SIMPLE = re.compile(
    r"([a-z]\w*)\[((?:\d+(?:,\d+)*)?)\](?:\{((?:\d+(?:,\d+)*))\})?(?![\w\[:]|\s*\{\s*[\d:])"
)
_TYPE = re.compile(r"([a-z]\w*)(?=\s*\[)")
_LAYOUT_AHEAD = re.compile(r"\{\s*[\d:]")
_BUFFER = re.compile(r"b\s*\(")
_LEVELS = {"D": 0, "C": 1, "S": 2, "H": 3}
_MAX_DIMENSION = (1 << 63) - 1


class ShapeReader:
    """Reads shapes at a cursor; equal texts give the same message, which callers only copy."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.known: dict[str, Message] = {}

    def can_start(self) -> bool:
        """Return True if a shape comes next."""
        cursor = self.cursor
        cursor.skip()
        if cursor.text.startswith("(", cursor.pos):
            return True
        match = _TYPE.match(cursor.text, cursor.pos)
        if match is not None:
            return match.group(1) in PRIMITIVE_TYPES
        return _BUFFER.match(cursor.text, cursor.pos) is not None

    def read(self) -> Message:
        """Read one shape."""
        cursor = self.cursor
        cursor.skip()
        simple = _SIMPLE.match(cursor.text, cursor.pos)
        if simple is not None:
            cached = self.known.get(simple.group())
            if cached is not None:
                cursor.pos = simple.end()
                return cached
        start = cursor.pos
        shape = self._read_new()
        if simple is not None and cursor.pos == simple.end():
            self.known[cursor.text[start : cursor.pos]] = shape
        return shape

    def _read_new(self) -> Message:
        cursor = self.cursor
        if cursor.accept("("):
            return self._tuple()
        if _BUFFER.match(cursor.text, cursor.pos):
            return self._buffer()
        match = _TYPE.match(cursor.text, cursor.pos)
        if match is None or match.group(1) not in PRIMITIVE_TYPES:
            raise cursor.error(f"expected a shape such as f32[2,3], found {cursor.next_token()}")
        cursor.pos = match.end()
        return self._array(PRIMITIVE_TYPES[match.group(1)])

    def _tuple(self) -> Message:
        cursor = self.cursor
        cursor.deeper()
        shape = ShapeProto(element_type=BY_NAME["tuple"].number)
        if not cursor.accept(")"):
            while True:
                shape.tuple_shapes.append(self.read())
                if not cursor.accept(","):
                    break
            cursor.expect(")", "to end the tuple shape")
        cursor.depth -= 1
        return shape

    def _buffer(self) -> Message:
        cursor = self.cursor
        cursor.accept("b")
        cursor.expect("(", "after b")
        cursor.deeper()
        shape = ShapeProto(element_type=BUFFER)
        shape.tuple_shapes.append(self.read())
        cursor.expect(")", "to end the buffer shape")
        cursor.depth -= 1
        return shape

    def _array(self, element_type: int) -> Message:
        cursor = self.cursor
        shape = ShapeProto(element_type=element_type)
        bounds = cursor.items("[", "]", self._dimension, "the dimensions")
        name = TYPE_NAMES[element_type]
        if name in ("token", "opaque"):
            if bounds:
                raise cursor.error(f"{name} has no dimensions")
            return shape
        for size, dynamic in bounds:
            shape.dimensions.append(size)
            shape.is_dynamic_dimension.append(dynamic)
        cursor.skip()
        if _LAYOUT_AHEAD.match(cursor.text, cursor.pos):
            self._layout(shape)
        else:
            shape.layout.minor_to_major.extend(reversed(range(len(bounds))))
            shape.layout.tail_padding_alignment_in_elements = 1
        return shape

    def _dimension(self) -> tuple[int, bool]:
        cursor = self.cursor
        if cursor.accept("?"):
            return -(1 << 63), True
        dynamic = cursor.accept("<=")
        start = cursor.pos
        size = cursor.integer("a dimension")
        if not 0 <= size <= _MAX_DIMENSION:
            raise cursor.error("a dimension must be a number of 63 bits", pos=start)
        return size, dynamic

    def _layout(self, shape: Message) -> None:
        cursor = self.cursor
        start = cursor.pos
        layout = shape.layout
        cursor.expect("{", "to start the layout")
        if not cursor.peek(":"):
            layout.minor_to_major.append(cursor.integer())
            while cursor.accept(","):
                layout.minor_to_major.append(cursor.integer())
        layout.tail_padding_alignment_in_elements = 1
        if cursor.accept(":"):
            self._layout_properties(layout)
        cursor.expect("}", "to end the layout")
        if sorted(layout.minor_to_major) != list(range(len(shape.dimensions))):
            raise cursor.error(
                "the layout must order the shape's dimensions, each once",
                pos=start,
            )

    def _layout_properties(self, layout: Message) -> None:
        cursor = self.cursor
        if cursor.word("D"):
            for level, unique, ordered in cursor.items("(", ")", self._level, "the level types"):
                layout.dim_level_types.append(level)
                layout.dim_unique.append(unique)
                layout.dim_ordered.append(ordered)
        if cursor.word("T"):
            while cursor.peek("("):
                layout.tiles.add().dimensions.extend(cursor.items("(", ")", self._tile, "a tile"))
        if cursor.word("L"):
            layout.tail_padding_alignment_in_elements = self._in_parentheses()
        for mark, field in (("#", "index_primitive_type"), ("*", "pointer_primitive_type")):
            if cursor.accept(mark):
                cursor.expect("(", f"after {mark}")
                setattr(layout, field, PRIMITIVE_TYPES.get(cursor.identifier("an integer type"), 0))
                cursor.expect(")", "after the type")
        if cursor.word("E"):
            layout.element_size_in_bits = self._in_parentheses()
        if cursor.word("S"):
            layout.memory_space = self._in_parentheses()
        if cursor.word("SC"):
            self._split_configs(layout)
        if cursor.word("P"):
            raise cursor.error("a physical shape belongs to sparse arrays, which XLA no longer has")
        if cursor.word("M"):
            layout.dynamic_shape_metadata_prefix_bytes = self._in_parentheses()

    def _level(self) -> tuple[int, bool, bool]:
        cursor = self.cursor
        letter = cursor.identifier("a level type (D, C, S or H)")
        if letter not in _LEVELS:
            raise cursor.error(f"expected a level type (D, C, S or H), found '{letter}'")
        return _LEVELS[letter], not cursor.accept("+"), not cursor.accept("~")

    def _tile(self) -> int:
        return -(1 << 63) if self.cursor.accept("*") else self.cursor.integer("a tile dimension")

    def _in_parentheses(self) -> int:
        self.cursor.expect("(", "before the number")
        value = self.cursor.integer()
        self.cursor.expect(")", "after the number")
        return value

    def _split_configs(self, layout: Message) -> None:
        cursor = self.cursor
        while cursor.accept("("):
            config = layout.split_configs.add(dimension=cursor.integer())
            config.split_indices.extend(cursor.items(":", ")", cursor.integer, "split indices"))


def default_layout(rank: int) -> Message:
    """The row-major layout."""
    return LayoutProto(
        minor_to_major=list(reversed(range(rank))), tail_padding_alignment_in_elements=1
    )
