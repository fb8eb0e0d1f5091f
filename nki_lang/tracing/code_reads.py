"""What the code of a function reads beside its arguments, as far as its byte code shows it."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from nki_lang.tracing.byte_code import Scan, scan
from nki_lang.tracing.readers import BY_NAME, is_function, reader, reader_among

__all__ = ["CodeReads", "Uses", "is_opaque_package", "reads_of"]

_OPAQUE_PACKAGES = frozenset(
    {
        "nki", "nki_lang", "hlo_tools", "neff", "numpy", "ml_dtypes", "jax", "jaxlib", "torch",
        "torch_xla", "scipy",
    }
) | (sys.stdlib_module_names - {"__main__"})  # fmt: skip
"""Packages known by name alone: they do not change while a process runs."""

_BY_TEXT = frozenset({"import_module", "__import__", "modules"})
"""Names that reach modules which the code names in texts."""

_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "expandvars", "expanduser"})


def is_opaque_package(name: str) -> bool:
    """Whether a module is of a package known by name alone."""
    top = name.partition(".")[0]
    return top in _OPAQUE_PACKAGES or top == "builtins"


class Uses:
    """How code uses one name: the attributes that it loads of it, one after the other.

    Attributes:
        chains: each way, such as ``("random", "rand")``.
    """

    __slots__ = ("_told", "chains")

    def __init__(self, chains: frozenset[tuple[str, ...]]) -> None:
        self.chains = chains
        self._told: dict[object, str] = {}

    def reader(self, owner: object) -> str:
        """What those members of an opaque module or class read; remembered."""
        told = self._told.get(owner)
        if told is None:
            told = reader_among(owner, self.chains)
            if told is None:
                return ""
            self._told[owner] = told
        return told


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
        anything: by what it reaches what it does not name, or "".
        uses: by name of a global, or of a local that an import statement assigns.
        free: names of the cells of its closure.
        bare: names, attributes among them, that are used as they are: passed on, returned.
        aliases: (module, member or "", local name) of each import statement.
    """

    digest: str
    globals: tuple[str, ...]
    mentioned: frozenset[str]
    imports: frozenset[tuple[int, str]]
    by_text: bool
    environment: bool
    anything: str
    uses: Mapping[str, Uses]
    free: tuple[str, ...]
    bare: frozenset[str]
    aliases: frozenset[tuple[str, str, str]]

    def modules(self, package: str, own: str) -> list[types.ModuleType]:
        """The modules that it imports or reaches by name, without those known by name alone.

        ``package`` is where relative imports start from, ``own`` the module of the code.
        """
        names: set[str] = set()
        for level, name in self.imports:
            full = _resolved(level, name, package)
            parts = full.split(".")
            names.update(".".join(parts[:end]) for end in range(1, len(parts) + 1) if full)
        if self.by_text:
            names.update(name for name in self.mentioned if name in sys.modules)
            names.update({own} if "__name__" in self.mentioned else ())
        found = (sys.modules.get(name) for name in sorted(names) if not is_opaque_package(name))
        return [module for module in found if isinstance(module, types.ModuleType)]

    def imported_reader(self) -> str:
        """What the members of opaque modules that it imports itself read, or ""."""
        for name, member, alias in self.aliases:
            module = sys.modules.get(name)
            if module is None or not is_opaque_package(name):
                continue
            found = vars(module).get(member) if member else module
            uses = self.uses.get(alias)
            told = uses.reader(found) if uses and isinstance(found, _OWNERS) else ""
            if not told and is_function(found) and alias != "import_module":
                told = reader(found)
            if told:
                return told
        return ""


_OWNERS = (types.ModuleType, type)

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
    digest = hashlib.sha256(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames, code.co_freevars, code.co_flags)).encode())
    mentioned = set(code.co_names)
    found = scan(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = reads_of(constant)
            found.add(inner.globals, inner.imports, inner.aliases, inner.bare, inner.anything)
            for name, uses in inner.uses.items():
                found.chains.setdefault(name, set()).update(uses.chains)
            mentioned |= inner.mentioned
            digest.update(inner.digest.encode())
            continue
        digest.update(_constant(constant).encode("utf-8", "surrogatepass"))
        if type(constant) is str and len(constant) < 200:
            mentioned.add(constant)
    return CodeReads(
        digest.hexdigest(),
        tuple(sorted(found.globals)),
        frozenset(mentioned),
        frozenset(found.imports),
        not _BY_TEXT.isdisjoint(mentioned),
        not _ENVIRONMENT.isdisjoint(mentioned),
        found.computed or min(BY_NAME & _by_attribute(found, mentioned), default=""),
        {name: Uses(frozenset(chains)) for name, chains in found.chains.items()},
        code.co_freevars,
        frozenset(found.bare | {m or n for n, m, alias in found.aliases if alias in found.bare}),
        frozenset(found.aliases),
    )


def _by_attribute(found: Scan, mentioned: set[str]) -> set[str]:
    """Names of attributes that are loaded, by a text with ``getattr`` and the like."""
    return found.attributes if _GETTERS.isdisjoint(mentioned) else found.attributes | mentioned


_GETTERS = frozenset({"getattr", "attrgetter", "methodcaller"})


def _constant(value: object) -> str:
    """A constant of a code object as a text that no other constant has."""
    if isinstance(value, frozenset):
        value = cast("frozenset[object]", value)
        return f"frozenset{list(map(_constant, value))}"
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
