"""The objects that a function's code reads besides its arguments, as far as its byte code shows."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from nki_lang.tracing.byte_code import Scan, scan
from nki_lang.tracing.readers import READING_ATTRIBUTES, is_function, reader, reader_among

__all__ = ["CodeReads", "Uses", "is_opaque_package", "reads_of"]

_OPAQUE_PACKAGES = frozenset(
    {
        "nki", "nki_lang", "hlo_tools", "neff", "numpy", "ml_dtypes", "jax", "jaxlib", "torch",
        "torch_xla", "scipy",
    }
) | (sys.stdlib_module_names - {"__main__"})  # fmt: skip
"""Packages compared only by name: they do not change while a process runs."""

_TEXT_IMPORTERS = frozenset({"import_module", "__import__", "modules"})
"""Names of functions that import modules by a text."""

_ENVIRONMENT_NAMES = frozenset(
    {"environ", "environb", "getenv", "getenvb", "expandvars", "expanduser"}
)


def is_opaque_package(name: str) -> bool:
    """Return True if a module belongs to a package that is compared only by name."""
    top = name.partition(".")[0]
    return top in _OPAQUE_PACKAGES or top == "builtins"


class Uses:
    """Uses of one name in code: the chains of attributes that the code loads from it.

    Attributes:
        chains: the chains, such as ``("random", "rand")``.
    """

    __slots__ = ("_descriptions", "chains")

    def __init__(self, chains: frozenset[tuple[str, ...]]) -> None:
        self.chains = chains
        self._descriptions: dict[object, str] = {}

    def reader(self, owner: object) -> str:
        """Return what these members of an opaque module or class read; the result is cached."""
        description = self._descriptions.get(owner)
        if description is None:
            description = reader_among(owner, self.chains)
            if description is None:
                return ""
            self._descriptions[owner] = description
        return description


@dataclass(frozen=True, slots=True)
class CodeReads:
    """Content and reads of one code object, including nested code objects.

    Attributes:
        digest: hash of the code, its names and its constants.
        globals: names of the globals that it reads, in order.
        mentioned: every name, including attributes, and every text that could be a name.
        imports: (level, name) of each import statement.
        by_text: True if it imports modules by texts, which are among ``mentioned``.
        environment: True if it reads environment variables.
        anything: the name by which it can reach unnamed objects, or "".
        uses: by name of a global, or of a local that an import statement assigns.
        free: names of the cells of its closure.
        bare: names, including attributes, that are used as values: passed on, returned.
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

    def modules(self, package: str, own_module: str) -> list[types.ModuleType]:
        """Return the modules that it imports or reaches by name, except those compared only by
        name.

        ``package`` is the base of relative imports, ``own_module`` the module of the code.
        """
        names: set[str] = set()
        for level, name in self.imports:
            full = _resolved(level, name, package)
            parts = full.split(".")
            names.update(".".join(parts[:end]) for end in range(1, len(parts) + 1) if full)
        if self.by_text:
            names.update(name for name in self.mentioned if name in sys.modules)
            names.update({own_module} if "__name__" in self.mentioned else ())
        imported = (sys.modules.get(name) for name in sorted(names) if not is_opaque_package(name))
        return [module for module in imported if isinstance(module, types.ModuleType)]

    def imported_reader(self) -> str:
        """Return what the members of opaque modules that it imports read, or ""."""
        for name, member, alias in self.aliases:
            module = sys.modules.get(name)
            if module is None or not is_opaque_package(name):
                continue
            imported = vars(module).get(member) if member else module
            uses = self.uses.get(alias)
            description = (
                uses.reader(imported) if uses and isinstance(imported, _MEMBER_OWNERS) else ""
            )
            if not description and is_function(imported) and alias != "import_module":
                description = reader(imported)
            if description:
                return description
        return ""


_MEMBER_OWNERS = (types.ModuleType, type)

_READS_BY_ID: dict[int, tuple[types.CodeType, CodeReads]] = {}
_MAX_CACHED_READS = 8192


def reads_of(code: types.CodeType) -> CodeReads:
    """Return content and reads of the code; cached, since comparing code objects is slow."""
    cached = _READS_BY_ID.get(id(code))
    if cached is not None:
        return cached[1]
    if len(_READS_BY_ID) >= _MAX_CACHED_READS:
        _READS_BY_ID.clear()
    reads = _read(code)
    _READS_BY_ID[id(code)] = (code, reads)  # the code stays alive, so its id stays unique
    return reads


def _read(code: types.CodeType) -> CodeReads:
    digest = hashlib.sha256(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames, code.co_freevars, code.co_flags)).encode())
    mentioned = set(code.co_names)
    loads = scan(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = reads_of(constant)
            loads.add(inner.globals, inner.imports, inner.aliases, inner.bare, inner.anything)
            for name, uses in inner.uses.items():
                loads.chains.setdefault(name, set()).update(uses.chains)
            mentioned |= inner.mentioned
            digest.update(inner.digest.encode())
            continue
        digest.update(_constant(constant).encode("utf-8", "surrogatepass"))
        if type(constant) is str and len(constant) < 200:
            mentioned.add(constant)
    return CodeReads(
        digest.hexdigest(),
        tuple(sorted(loads.globals)),
        frozenset(mentioned),
        frozenset(loads.imports),
        not _TEXT_IMPORTERS.isdisjoint(mentioned),
        not _ENVIRONMENT_NAMES.isdisjoint(mentioned),
        loads.computed or min(READING_ATTRIBUTES & _by_attribute(loads, mentioned), default=""),
        {name: Uses(frozenset(chains)) for name, chains in loads.chains.items()},
        code.co_freevars,
        frozenset(loads.bare | {m or n for n, m, alias in loads.aliases if alias in loads.bare}),
        frozenset(loads.aliases),
    )


def _by_attribute(loads: Scan, mentioned: set[str]) -> set[str]:
    """Return the names of loaded attributes, including texts for ``getattr`` and the like."""
    return loads.attributes if _TEXT_GETTERS.isdisjoint(mentioned) else loads.attributes | mentioned


_TEXT_GETTERS = frozenset({"getattr", "attrgetter", "methodcaller"})


def _constant(value: object) -> str:
    """Return a constant of a code object as a unique text."""
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
