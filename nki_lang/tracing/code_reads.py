"""What the code of a function reads beside its arguments, as far as its byte code shows it."""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib.util
import sys
import types
from dataclasses import dataclass
from typing import cast

__all__ = ["CodeReads", "is_opaque_package", "reads_of"]

_OPAQUE_PACKAGES = frozenset(
    {"nki", "nki_lang", "hlo_tools", "neff", "numpy", "ml_dtypes", "jax", "torch", "torch_xla"}
) | (sys.stdlib_module_names - {"__main__"})
"""Packages known by name alone: they do not change while a process runs."""

_ANYTHING = frozenset({"globals", "eval", "exec", "open", "input"})
"""Builtins that reach values which the code does not name."""

_BY_TEXT = frozenset({"import_module", "__import__", "modules"})
"""Names that reach modules which the code names in texts."""

_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb"})


@functools.lru_cache(maxsize=4096)
def is_opaque_package(name: str) -> bool:
    """Packages known by name, and whatever is installed: neither changes while a process runs."""
    top = name.partition(".")[0]
    if top in _OPAQUE_PACKAGES or top == "builtins":
        return True
    if top == "__main__":  # a script or a notebook, whatever started it
        return False
    place = getattr(sys.modules.get(top), "__file__", None) or ""
    return "site-packages" in place or "dist-packages" in place


@dataclass(frozen=True, slots=True)
class CodeReads:
    """What one code object, with those inside it, is and reads.

    Attributes:
        digest: of the code, its names and its constants.
        globals: names of the globals that it reads, in order.
        mentioned: every name, attributes among them, and every text that could be one.
        imports: (level, name) of each import statement.
        by_text: it reaches modules by texts, which are among ``mentioned``.
        environment: it reads environment variables.
        anything: the builtin by which it reaches what it does not name, or "".
    """

    digest: str
    globals: tuple[str, ...]
    mentioned: frozenset[str]
    imports: frozenset[tuple[int, str]]
    by_text: bool
    environment: bool
    anything: str

    def modules(self, package: str) -> list[types.ModuleType]:
        """The modules that it imports or reaches by name, without those known by name alone.

        ``package`` is where relative imports start from.
        """
        names: set[str] = set()
        for level, name in self.imports:
            full = _resolved(level, name, package)
            parts = full.split(".")
            names.update(".".join(parts[:end]) for end in range(1, len(parts) + 1) if full)
        if self.by_text:
            names.update(name for name in self.mentioned if name in sys.modules)
        found = (sys.modules.get(name) for name in sorted(names) if not is_opaque_package(name))
        return [module for module in found if isinstance(module, types.ModuleType)]


_KNOWN: dict[int, tuple[types.CodeType, CodeReads]] = {}
_LIMIT = 8192


def reads_of(code: types.CodeType) -> CodeReads:
    """What the code is and reads; remembered, since comparing code objects is slow."""
    known = _KNOWN.get(id(code))
    if known is not None:
        return known[1]
    if len(_KNOWN) >= _LIMIT:
        _KNOWN.clear()
    made = _read(code)
    _KNOWN[id(code)] = (code, made)  # the code is kept so that its id stays its own
    return made


def _read(code: types.CodeType) -> CodeReads:
    read: set[str] = set()
    imports: set[tuple[int, str]] = set()
    mentioned = set(code.co_names)
    digest = hashlib.sha256(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames, code.co_freevars, code.co_flags)).encode())
    level = 0
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            read.add(str(step.argval))
        elif step.opname == "IMPORT_NAME":
            imports.add((level, str(step.argval)))
        elif step.opname.startswith("LOAD_") and type(step.argval) is int:
            level = step.argval  # the last integer before IMPORT_NAME is the import's level
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = reads_of(constant)
            read.update(inner.globals)
            imports |= inner.imports
            mentioned |= inner.mentioned
            digest.update(inner.digest.encode())
            continue
        digest.update(_constant(constant).encode("utf-8", "surrogatepass"))
        if type(constant) is str and len(constant) < 200:
            mentioned.add(constant)
    return CodeReads(
        digest.hexdigest(),
        tuple(sorted(read)),
        frozenset(mentioned),
        frozenset(imports),
        not _BY_TEXT.isdisjoint(mentioned),
        not _ENVIRONMENT.isdisjoint(mentioned),
        min(_ANYTHING & read, default=""),
    )


def _constant(value: object) -> str:
    """A constant of a code object as a text that no other constant has."""
    if isinstance(value, frozenset):
        value = cast("frozenset[object]", value)
        return f"frozenset{sorted(map(_constant, value))}"
    if isinstance(value, tuple):
        value = cast("tuple[object, ...]", value)
        return f"tuple{[_constant(item) for item in value]}"
    return f"{type(value).__name__}:{value!r}"


def _resolved(level: int, name: str, package: str) -> str:
    if not level:
        return name
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except (ImportError, ValueError):  # the import itself will fail
        return ""
