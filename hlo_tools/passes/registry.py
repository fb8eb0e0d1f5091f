"""The registry of passes: this package's table, and entry points of other packages.

A package adds passes with the entry point group ``nki_hlo.passes``; the entry's name is the pass's
name, its value the class::

    [project.entry-points."nki_hlo.passes"]
    my-pass = "my_package.my_pass:MyPass"

Two passes of one name are an error, whoever they come from.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from typing import cast

from hlo_tools._messages import did_you_mean
from hlo_tools.extract.python_file import load_named
from hlo_tools.passes.base import Pass
from hlo_tools.plugins import BUILTIN_ORIGIN, Plugin, plugins
from hlo_tools.rewrite.errors import PassError

__all__ = ["GROUP", "Registered", "find_pass", "pass_of_file", "registered_passes"]

GROUP = "nki_hlo.passes"

_BUILT_IN = {
    "dce": "dce:DeadCode",
    "cse": "cse:CommonSubexpressions",
    "constant-folding": "constant_folding:ConstantFolding",
    "algebraic-simplification": "algebraic_simplification:AlgebraicSimplification",
    "reshape-transpose-cleaning": "reshape_transpose_cleaning:ReshapeTransposeCleaning",
    "dot-canonicalisation": "dot_canonicalisation:DotCanonicalisation",
    "call-inlining": "call_inlining:CallInlining",
    "outlining": "outlining:Outlining",
    "tuple-flattening": "tuple_flattening:TupleFlattening",
    "auto-cast": "auto_cast:AutoCast",
    "dtype-legalisation": "dtype_legalisation:DtypeLegalisation",
    "while-trip-counts": "while_trip_counts:WhileTripCounts",
    "strip-metadata": "strip_metadata:StripMetadata",
    "keep-metadata": "keep_metadata:KeepMetadata",
    "rename": "rename:Rename",
    "renumber": "renumber:Renumber",
    "schedule": "schedule:Schedule",
    "replace": "replace:Replace",
    "swap": "swap:Swap",
    "expand": "expand:Expand",
    "embed": "embed:Embed",
}
"""Our own passes: name to ``module:class`` in this package."""


class Registered(Plugin):
    """A pass that can be named in a pipeline.

    Attributes:
        name: what a pipeline calls it.
        value: ``module:class``.
        origin: the distribution that registers it.
    """

    __slots__ = ()

    def load(self) -> type[Pass]:
        """The class.

        Raises:
            PassError: it cannot be imported, or is not a pass of that name (HLO-PASS-BROKEN).
        """
        try:
            loaded = self.get()
        except Exception as error:  # another package's import may fail in any way
            raise self._broken(f"cannot be imported: {error}") from error
        if not (isinstance(loaded, type) and issubclass(loaded, Pass)):
            raise self._broken("is not a class derived from hlo_tools.passes.Pass")
        if getattr(loaded, "name", None) != self.name:
            raise self._broken(f"calls itself {getattr(loaded, 'name', None)!r}")
        return loaded

    @property
    def needs_arguments(self) -> bool:
        """True if the pass runs only with arguments; see :attr:`Pass.needs`."""
        return bool(self.load().needs)

    def _broken(self, reason: str) -> PassError:
        return PassError(
            f"the pass {self.name} ({self.value} of {self.origin}) {reason}",
            code="HLO-PASS-BROKEN",
            remedy=f"fix or remove the package {self.origin}",
        )


@cache
def registered_passes() -> dict[str, Registered]:
    """Return every pass by name: first this package's, then plug-ins in order of their names.

    Raises:
        PassError: two have the same name (HLO-PASS-CLASH).
    """
    passes = {
        name: Registered(name, BUILTIN_ORIGIN, f"hlo_tools.passes.{value}")
        for name, value in _BUILT_IN.items()
    }
    for plugin in plugins(GROUP):
        entry = Registered(plugin.name, plugin.origin, plugin.value)
        registered = passes.get(entry.name)
        if registered is not None:
            raise PassError(
                f"two passes are called {entry.name}: {registered.value} of {registered.origin} and "
                f"{entry.value} of {entry.origin}",
                code="HLO-PASS-CLASH",
                remedy=f"rename one, or remove the package {entry.origin}",
            )
        passes[entry.name] = entry
    return passes


def find_pass(name: str) -> type[Pass]:
    """The pass called ``name``.

    Raises:
        PassError: there is none (HLO-NO-PASS), with those that it may have meant.
    """
    entry = registered_passes().get(name)
    if entry is not None:
        return entry.load()
    raise PassError(
        f"there is no pass {name!r}",
        code="HLO-NO-PASS",
        remedy=f"{did_you_mean(name, registered_passes())}nki-hlo opt --list lists them all",
    )


def pass_of_file(text: str) -> type[Pass]:
    """The pass that ``FILE.py:CLASS`` names; the file is imported, which runs it.

    Raises:
        PassError: the object is not a pass (HLO-PASS-BROKEN).
        HloError: as :func:`hlo_tools.extract.python_file.load_named`.
    """
    loaded: object = load_named(text)
    if isinstance(loaded, type) and issubclass(loaded, Pass):
        if not is_dataclass(loaded):
            reason = "is not a dataclass: write @dataclass(frozen=True, slots=True) before it"
        elif isinstance(getattr(loaded, "name", None), str):
            return cast(type[Pass], loaded)
        else:
            reason = "has no name: write name: ClassVar[str]"
    else:
        reason = "is not a class derived from hlo_tools.passes.Pass"
    raise PassError(
        f"{text} {reason}",
        code="HLO-PASS-BROKEN",
        remedy="docs/passes.md shows how a pass is written",
    )
