"""The parser of the kernel IR's textual form (:mod:`nki_lang.ir.text`)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from nki_lang.base.dtypes import BY_NAME, DType
from nki_lang.base.errors import NkiFileError
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import MAX_CALLERS, SourceLocation
from nki_lang.ir.text import full_pattern, identity
from nki_lang.ir.types import (
    Access,
    Block,
    Constant,
    Engine,
    ForLoop,
    Instruction,
    KernelIR,
    NoReorder,
    Register,
    Tensor,
    WhileLoop,
)

__all__ = ["parse"]

_MAX_NESTING = 64
_TOKEN_PATTERN = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<number>-?(?:inf|nan|\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)(?![A-Za-z0-9_]))
      | (?P<integer>-?\d+)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)
      | (?P<mark>\.\.|[%$@(){}\[\]<>=,:;|*])""",
    re.VERBOSE,
)


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int


def _tokens(text: str, fail: Callable[[int, str], NkiFileError]) -> list[_Token]:
    tokens: list[_Token] = []
    offset = 0
    while offset < len(text):
        match = _TOKEN_PATTERN.match(text, offset)
        if match is None:
            raise fail(offset, f"the character {text[offset]!r} is not expected here")
        if match.lastgroup != "space":
            assert match.lastgroup is not None
            tokens.append(_Token(match.lastgroup, match.group(), offset))
        offset = match.end()
    tokens.append(_Token("end", "", len(text)))
    return tokens


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.tokens = _tokens(text, self.fail)
        self.position = 0
        self.depth = 0
        self.shared: dict[str, Tensor] = {}
        self.tensors: dict[str, Tensor] = {}

    # --- errors and tokens -----------------------------------------------------------------

    def fail(self, offset: int, message: str) -> NkiFileError:
        """Return an error that shows the line and marks the column."""
        line = self.text.count("\n", 0, offset) + 1
        begin = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        line_text = self.text[begin : end if end >= 0 else len(self.text)]
        column = offset - begin
        window = max(0, column - 60)
        excerpt, caret = line_text[window : window + 100], " " * (column - window)
        return NkiFileError(
            f"{self.name}:{line}:{column + 1}: {message}\n  {excerpt}\n  {caret}^", code="NKI-TEXT"
        )

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def expected(self, expectation: str) -> NkiFileError:
        token = self.token
        actual = f"found {token.text!r}" if token.text else "the text ends"
        return self.fail(token.offset, f"expected {expectation}, {actual}")

    def accept(self, text: str) -> bool:
        token = self.token
        if token.text == text and token.kind in ("mark", "word"):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.expected(f"{text!r}")

    def take(self, kind: str, what: str) -> _Token:
        token = self.token
        if token.kind != kind:
            raise self.expected(what)
        self.position += 1
        return token

    def integer(self, what: str = "a whole number") -> int:
        token = self.take("integer", what)
        if len(token.text) > 40:
            raise self.fail(token.offset, "the number has too many digits")
        return int(token.text)

    def string(self) -> str:
        token = self.take("string", "a string in quotes")
        try:
            return json.loads(token.text)
        except ValueError:
            raise self.fail(token.offset, "the string has a wrong escape") from None

    def name_of(self, what: str) -> str:
        """Parse a word, or any string in quotes."""
        if self.token.kind == "string":
            return self.string()
        return self.take("word", what).text

    def one_of(self, table: Mapping[str, object], what: str) -> Any:
        token = self.take("word", what)
        if token.text not in table:
            raise self.fail(
                token.offset, f"{token.text!r} is not a known {what}; known are {', '.join(table)}"
            )
        return table[token.text]

    def several(self, close: str, item: Callable[[], object]) -> list[Any]:
        """Parse items separated by commas up to ``close``; a trailing comma is allowed."""
        items: list[Any] = []
        while not self.accept(close):
            if items:
                self.expect(",")
                if self.accept(close):
                    break
            items.append(item())
        return items

    # --- values ----------------------------------------------------------------------------

    def register(self) -> Register:
        self.expect("$")
        return Register(self.name_of("the name of a register"))

    def bound(self) -> int | Register:
        return self.register() if self.token.text == "$" else self.integer("a number or a register")

    def dtype(self) -> DType:
        return self.one_of(BY_NAME, "data type")

    def value(self) -> Any:
        self.depth += 1
        if self.depth > _MAX_NESTING:
            raise self.fail(self.token.offset, f"values are nested more than {_MAX_NESTING} deep")
        value = self._value()
        self.depth -= 1
        return value

    def _value(self) -> Any:
        token = self.token
        if token.kind == "integer":
            return self.integer()
        if token.kind == "string":
            return self.string()
        if token.kind == "number":
            self.position += 1
            return float(token.text)
        if token.kind == "word":
            self.position += 1
            return {"True": True, "False": False, "None": None}.get(token.text, token.text)
        reader = _VALUE_READERS.get(token.text)
        if reader is None:
            raise self.expected("a value")
        return reader(self)

    def tuple_(self) -> tuple[Any, ...]:
        self.expect("(")
        return tuple(self.several(")", self.value))

    def list_(self) -> list[Any]:
        self.expect("[")
        return self.several("]", self.value)

    def dict_(self) -> dict[Any, Any]:
        self.expect("{")

        def pair() -> tuple[Any, Any]:
            offset = self.token.offset
            key = self.value()
            if isinstance(key, (list, dict)):
                raise self.fail(offset, "a list or a dict is not a key")
            self.expect(":")
            return key, self.value()

        return dict(self.several("}", pair))

    def typed(self) -> Any:
        self.expect("<")
        kind = self.one_of(_TYPED_VALUES, "kind of value")
        value = self.one_of(kind, "name of that kind")
        self.expect(">")
        return value

    def access(self) -> Access:
        self.expect("%")
        offset_of_name = self.token.offset
        name = self.name_of("the name of a tensor")
        tensor = self.tensors.get(name)
        if tensor is None:
            raise self.fail(offset_of_name, f"the tensor %{name} is not declared")
        if not self.accept("["):
            return Access(tensor, 0, full_pattern(tensor.shape))
        offset = self.integer("the offset")
        self.expect(";")
        pairs: list[tuple[int, int]] = []
        while self.token.kind == "integer":
            step = self.integer()
            self.expect("*")
            pairs.append((step, self.integer("a count")))
            if not self.accept(","):
                break
        attributes = self._access_attributes() if self.accept("|") else {}
        self.expect("]")
        return Access(
            tensor, offset, tuple(pairs), attributes.get("scalar"), attributes.get("vector"),
            attributes.get("dim", 0), attributes.get("dtype"), attributes.get("step"),
        )  # fmt: skip

    def _access_attributes(self) -> dict[str, Any]:
        readers: dict[str, Callable[[], Any]] = {
            "scalar": self._scalar,
            "vector": self.access,
            "dim": self.integer,
            "dtype": self.dtype,
            "step": self.integer,
        }
        attributes: dict[str, Any] = {}
        while True:
            token = self.token
            reader = self.one_of(readers, "part of an access")
            self.expect("=")
            attributes[token.text] = reader()
            if not self.accept(","):
                return attributes

    def _scalar(self) -> Register | Access:
        self.depth += 1
        if self.depth > _MAX_NESTING:
            raise self.fail(self.token.offset, f"accesses are nested more than {_MAX_NESTING} deep")
        scalar = self.register() if self.token.text == "$" else self.access()
        self.depth -= 1
        return scalar

    # --- statements ------------------------------------------------------------------------

    def location(self) -> SourceLocation | None:
        """Parse ``@"file":line:column in function``, with callers after ``from``."""
        frames = [self._frame()]
        while frames[-1] is not None and self.accept("from"):
            if len(frames) > MAX_CALLERS:
                raise self.fail(self.token.offset, f"more than {MAX_CALLERS} calls")
            frames.append(self._frame())
        location: SourceLocation | None = None
        for frame in reversed(frames):
            location = frame and frame._replace(caller=location)
        return location

    def _frame(self) -> SourceLocation | None:
        if not self.accept("@"):
            return None
        file = self.string()
        self.expect(":")
        line = self.integer("a line")
        column = self.integer("a column") if self.accept(":") else -1
        function = self.name_of("a function") if self.accept("in") else ""
        return SourceLocation(file, line, function, column)

    def block(self) -> list[Any]:
        self.expect("{")
        return self.statements()

    def statements(self) -> list[Any]:
        """Parse statements up to the closing brace."""
        self.depth += 1
        if self.depth > _MAX_NESTING:
            raise self.fail(self.token.offset, f"regions are nested more than {_MAX_NESTING} deep")
        statements: list[Any] = []
        while not self.accept("}"):
            statements.append(self.statement())
        self.depth -= 1
        return statements

    def statement(self) -> Any:
        token, following = self.token, self.tokens[min(self.position + 1, len(self.tokens) - 1)]
        if token.kind == "word" and following.text != "(":
            if token.text in ("for", "while", "no_reorder"):
                self.position += 1
                return self.region(token.text)
            raise self.expected("a statement")
        return self.instruction()

    def region(self, kind: str) -> Any:
        if kind == "no_reorder":
            location = self.location()
            return NoReorder(self.block(), location)
        register = self.register()
        if kind == "while":
            location = self.location()
            return WhileLoop(register, self.block(), location)
        self.expect("in")
        start = self.bound()
        self.expect("..")
        stop = self.bound()
        self.expect("step")
        step = self.bound()
        location = self.location()
        return ForLoop(register, start, stop, step, self.block(), location)

    def instruction(self) -> Instruction:
        op = self.name_of("a statement")
        self.expect("(")

        def operand() -> tuple[str, Any]:
            name = self.name_of("the name of an operand")
            self.expect("=")
            return name, self.value()

        operands = dict(self.several(")", operand))
        engine, name, after = Engine.unknown, "", ()
        if self.accept("engine"):
            self.expect("=")
            engine = self.one_of(Engine.__members__, "engine")  # type: ignore[arg-type]
        if self.token.text == "name" and self.accept("name"):
            self.expect("=")
            name = self.name_of("a name")
        if self.accept("after"):
            self.expect("=")
            self.expect("(")
            after = tuple(self.several(")", lambda: self.name_of("the name of an instruction")))
        return Instruction(op, operands, engine, name, self.location(), after)

    # --- declarations ----------------------------------------------------------------------

    def tensor(self) -> Tensor:
        self.expect("%")
        name = self.name_of("the name of a tensor")
        self.expect(":")
        dtype = self.dtype()
        self.expect("[")
        shape = tuple(self.several("]", lambda: self.integer("an extent")))
        buffer = self.one_of({region.value: region for region in MemoryRegion}, "memory")
        address = None
        if self.accept("at"):
            self.expect("(")
            start = self.integer("a partition")
            self.expect(",")
            address = (start, self.integer("a byte offset"))
            self.expect(")")
        return Tensor(name, dtype, shape, buffer, address, self.accept("fixed"))

    def constant(self) -> Constant:
        tensor = self.tensor()
        self.expect("=")
        offset = self.token.offset
        type_name = self.name_of("a NumPy type")
        self.expect("[")
        shape = tuple(self.several("]", lambda: self.integer("an extent")))
        try:
            dtype = np.dtype(type_name)
            if len(shape) == 2 and max(shape) < 1 << 14 and self.accept("identity"):
                return Constant(tensor, identity(shape, dtype))
            raw = base64.b64decode(self.string(), validate=True)
            value = np.frombuffer(raw, dtype).reshape(shape)
        except (TypeError, ValueError) as error:
            raise self.fail(offset, f"the value of the constant is damaged: {error}") from None
        return Constant(tensor, value)

    def header(self) -> dict[str, Any]:
        self.expect("kernel")
        fields: dict[str, Any] = {"name": self.name_of("the name of the kernel")}
        self.expect("target")
        self.expect("=")
        fields["target"] = self.name_of("a target")
        if self.accept("lnc"):
            self.expect("=")
            fields["lnc"] = self.integer("a number of cores")
        if self.accept("grid"):
            self.expect("=")
            fields["grid"] = self.tuple_()
        fields["returns_tuple"] = self.accept("returns_tuple")
        fields["has_collectives"] = self.accept("has_collectives")
        if self.accept("metadata"):
            self.expect("=")
            fields["metadata"] = self.dict_()
        return fields

    def kernel(self) -> KernelIR:
        fields = self.header()
        self.expect("{")
        declarations: dict[str, list[Any]] = {"input": [], "output": [], "constant": []}
        while self.token.text in declarations:
            kind = self.token.text
            self.position += 1
            declared = self.constant() if kind == "constant" else self.tensor()
            declarations[kind].append(declared)
            tensor = declared.tensor if isinstance(declared, Constant) else declared
            self.shared[tensor.name] = tensor
        bodies: list[Block] = []
        while self.accept("core"):
            bodies.append(self.core())
        fields.setdefault("lnc", len(bodies))
        self.expect("}")
        if self.token.kind != "end":
            raise self.expected("the end of the text")
        return KernelIR(
            **fields,
            inputs=tuple(declarations["input"]),
            outputs=tuple(declarations["output"]),
            constants=tuple(declarations["constant"]),
            bodies=tuple(bodies),
        )

    def core(self) -> list[Any]:
        self.tensors = dict(self.shared)
        self.expect("{")
        while self.token.text == "tensor" and self.tokens[self.position + 1].text == "%":
            self.position += 1
            tensor = self.tensor()
            self.tensors[tensor.name] = tensor
        return self.statements()


_VALUE_READERS: dict[str, Callable[[_Parser], Any]] = {
    "%": _Parser.access,
    "$": _Parser.register,
    "(": _Parser.tuple_,
    "[": _Parser.list_,
    "{": _Parser.dict_,
    "<": _Parser.typed,
}

_TYPED_VALUES: dict[str, dict[str, Any]] = {
    "dtype": BY_NAME,
    "buffer": {region.value: region for region in MemoryRegion},
    "engine": dict(Engine.__members__),
}


def parse(text: str, name: str = "<kernel>") -> KernelIR:
    """Return the kernel that a text describes.

    Args:
        text: the result of :func:`nki_lang.ir.text.to_text`, or text that a person wrote.
        name: name of the text in errors, for example a file name.

    Raises:
        NkiFileError: code ``NKI-TEXT``; the message has line and column and shows the line.
    """
    return _Parser(text, name).kernel()
