"""The parser of the kernel IR's textual form (:mod:`nki_lang.ir.text`)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nki_lang.dtypes import BY_NAME, DType
from nki_lang.errors import NkiFileError
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
from nki_lang.memory import MemoryRegion
from nki_lang.source import MAX_CALLERS, SourceLocation

__all__ = ["parse"]

_MAX_DEPTH = 64
_TOKEN = re.compile(
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
    at: int


def _tokens(text: str, fail: Callable[[int, str], NkiFileError]) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise fail(at, f"the character {text[at]!r} is not expected here")
        if match.lastgroup != "space":
            assert match.lastgroup is not None
            found.append(_Token(match.lastgroup, match.group(), at))
        at = match.end()
    found.append(_Token("end", "", len(text)))
    return found


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.tokens = _tokens(text, self.fail)
        self.at = 0
        self.depth = 0
        self.shared: dict[str, Tensor] = {}
        self.tensors: dict[str, Tensor] = {}

    # --- errors and tokens -----------------------------------------------------------------

    def fail(self, at: int, message: str) -> NkiFileError:
        """An error that shows the line and points at the place."""
        line = self.text.count("\n", 0, at) + 1
        begin = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        shown = self.text[begin : end if end >= 0 else len(self.text)]
        column = at - begin
        window = max(0, column - 60)
        excerpt, caret = shown[window : window + 100], " " * (column - window)
        return NkiFileError(
            f"{self.name}:{line}:{column + 1}: {message}\n  {excerpt}\n  {caret}^", code="NKI-TEXT"
        )

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def expected(self, what: str) -> NkiFileError:
        token = self.token
        found = f"found {token.text!r}" if token.text else "the text ends"
        return self.fail(token.at, f"expected {what}, {found}")

    def accept(self, text: str) -> bool:
        token = self.token
        if token.text == text and token.kind in ("mark", "word"):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.expected(f"{text!r}")

    def take(self, kind: str, what: str) -> _Token:
        token = self.token
        if token.kind != kind:
            raise self.expected(what)
        self.at += 1
        return token

    def integer(self, what: str = "a whole number") -> int:
        token = self.take("integer", what)
        if len(token.text) > 40:
            raise self.fail(token.at, "the number has too many digits")
        return int(token.text)

    def string(self) -> str:
        token = self.take("string", "a string in quotes")
        try:
            return json.loads(token.text)
        except ValueError:
            raise self.fail(token.at, "the string has a wrong escape") from None

    def name_of(self, what: str) -> str:
        """A word, or any string in quotes."""
        if self.token.kind == "string":
            return self.string()
        return self.take("word", what).text

    def one_of(self, table: dict[str, Any], what: str) -> Any:
        token = self.take("word", what)
        if token.text not in table:
            raise self.fail(
                token.at, f"{token.text!r} is not a known {what}; known are {', '.join(table)}"
            )
        return table[token.text]

    def several(self, close: str, item: Callable[[], Any]) -> list[Any]:
        """Items with commas between them up to ``close``; a last comma may stand."""
        found: list[Any] = []
        while not self.accept(close):
            if found:
                self.expect(",")
                if self.accept(close):
                    break
            found.append(item())
        return found

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
        if self.depth > _MAX_DEPTH:
            raise self.fail(self.token.at, f"values are nested more than {_MAX_DEPTH} deep")
        found = self._value()
        self.depth -= 1
        return found

    def _value(self) -> Any:
        token = self.token
        if token.kind == "integer":
            return self.integer()
        if token.kind == "string":
            return self.string()
        if token.kind == "number":
            self.at += 1
            return float(token.text)
        if token.kind == "word":
            self.at += 1
            return {"True": True, "False": False, "None": None}.get(token.text, token.text)
        reader = _MARKS.get(token.text)
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
            at = self.token.at
            key = self.value()
            if isinstance(key, (list, dict)):
                raise self.fail(at, "a list or a dict is not a key")
            self.expect(":")
            return key, self.value()

        return dict(self.several("}", pair))

    def typed(self) -> Any:
        self.expect("<")
        kind = self.one_of(_TYPED, "kind of value")
        found = self.one_of(kind, "name of that kind")
        self.expect(">")
        return found

    def access(self) -> Access:
        self.expect("%")
        at = self.token.at
        name = self.name_of("the name of a tensor")
        tensor = self.tensors.get(name)
        if tensor is None:
            raise self.fail(at, f"the tensor %{name} is not declared")
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
        more = self._access_parts() if self.accept("|") else {}
        self.expect("]")
        return Access(
            tensor, offset, tuple(pairs), more.get("scalar"), more.get("vector"),
            more.get("dim", 0), more.get("dtype"), more.get("step"),
        )  # fmt: skip

    def _access_parts(self) -> dict[str, Any]:
        readers: dict[str, Callable[[], Any]] = {
            "scalar": self._scalar,
            "vector": self.access,
            "dim": self.integer,
            "dtype": self.dtype,
            "step": self.integer,
        }
        more: dict[str, Any] = {}
        while True:
            token = self.token
            reader = self.one_of(readers, "part of an access")
            self.expect("=")
            more[token.text] = reader()
            if not self.accept(","):
                return more

    def _scalar(self) -> Register | Access:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.fail(self.token.at, f"accesses are nested more than {_MAX_DEPTH} deep")
        found = self.register() if self.token.text == "$" else self.access()
        self.depth -= 1
        return found

    # --- statements ------------------------------------------------------------------------

    def place(self) -> SourceLocation | None:
        """``@"file":line:column in function``, and behind ``from`` where that was called."""
        places = [self._place()]
        while places[-1] is not None and self.accept("from"):
            if len(places) > MAX_CALLERS:
                raise self.fail(self.token.at, f"more than {MAX_CALLERS} calls")
            places.append(self._place())
        found: SourceLocation | None = None
        for one in reversed(places):
            found = one and one._replace(caller=found)
        return found

    def _place(self) -> SourceLocation | None:
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
        """Statements up to the closing brace."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.fail(self.token.at, f"regions are nested more than {_MAX_DEPTH} deep")
        statements: list[Any] = []
        while not self.accept("}"):
            statements.append(self.statement())
        self.depth -= 1
        return statements

    def statement(self) -> Any:
        token, following = self.token, self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if token.kind == "word" and following.text != "(":
            if token.text in ("for", "while", "no_reorder"):
                self.at += 1
                return self.region(token.text)
            raise self.expected("a statement")
        return self.instruction()

    def region(self, kind: str) -> Any:
        if kind == "no_reorder":
            location = self.place()
            return NoReorder(self.block(), location)
        register = self.register()
        if kind == "while":
            location = self.place()
            return WhileLoop(register, self.block(), location)
        self.expect("in")
        start = self.bound()
        self.expect("..")
        stop = self.bound()
        self.expect("step")
        step = self.bound()
        location = self.place()
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
        return Instruction(op, operands, engine, name, self.place(), after)

    # --- declarations ----------------------------------------------------------------------

    def tensor(self) -> Tensor:
        self.expect("%")
        name = self.name_of("the name of a tensor")
        self.expect(":")
        dtype = self.dtype()
        self.expect("[")
        shape = tuple(self.several("]", lambda: self.integer("an extent")))
        buffer = self.one_of({one.value: one for one in MemoryRegion}, "memory")
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
        at = self.token.at
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
            raise self.fail(at, f"the value of the constant is damaged: {error}") from None
        return Constant(tensor, value)

    def header(self) -> dict[str, Any]:
        self.expect("kernel")
        given: dict[str, Any] = {"name": self.name_of("the name of the kernel")}
        self.expect("target")
        self.expect("=")
        given["target"] = self.name_of("a target")
        if self.accept("lnc"):
            self.expect("=")
            given["lnc"] = self.integer("a number of cores")
        if self.accept("grid"):
            self.expect("=")
            given["grid"] = self.tuple_()
        given["returns_tuple"] = self.accept("returns_tuple")
        given["has_collectives"] = self.accept("has_collectives")
        if self.accept("metadata"):
            self.expect("=")
            given["metadata"] = self.dict_()
        return given

    def kernel(self) -> KernelIR:
        given = self.header()
        self.expect("{")
        parts: dict[str, list[Any]] = {"input": [], "output": [], "constant": []}
        while self.token.text in parts:
            kind = self.token.text
            self.at += 1
            made = self.constant() if kind == "constant" else self.tensor()
            parts[kind].append(made)
            tensor = made.tensor if isinstance(made, Constant) else made
            self.shared[tensor.name] = tensor
        bodies: list[Block] = []
        while self.accept("core"):
            bodies.append(self.core())
        given.setdefault("lnc", len(bodies))
        self.expect("}")
        if self.token.kind != "end":
            raise self.expected("the end of the text")
        return KernelIR(
            **given,
            inputs=tuple(parts["input"]),
            outputs=tuple(parts["output"]),
            constants=tuple(parts["constant"]),
            bodies=tuple(bodies),
        )

    def core(self) -> list[Any]:
        self.tensors = dict(self.shared)
        self.expect("{")
        while self.token.text == "tensor" and self.tokens[self.at + 1].text == "%":
            self.at += 1
            tensor = self.tensor()
            self.tensors[tensor.name] = tensor
        return self.statements()


_MARKS: dict[str, Callable[[_Parser], Any]] = {
    "%": _Parser.access,
    "$": _Parser.register,
    "(": _Parser.tuple_,
    "[": _Parser.list_,
    "{": _Parser.dict_,
    "<": _Parser.typed,
}

_TYPED: dict[str, dict[str, Any]] = {
    "dtype": BY_NAME,
    "buffer": {one.value: one for one in MemoryRegion},
    "engine": dict(Engine.__members__),
}


def parse(text: str, name: str = "<kernel>") -> KernelIR:
    """The kernel that a text describes.

    Args:
        text: what :func:`nki_lang.ir.text.to_text` returns, or what a person wrote.
        name: what errors call the text, a file name say.

    Raises:
        NkiFileError: code ``NKI-TEXT``; the message has line and column and shows the line.
    """
    return _Parser(text, name).kernel()
