"""Inside a package imports go down the ranks; neither rooms nor files form circles.

A room is a file or folder that stands directly in a package. A new room, or a room at another
rank, is a decision: it is written down here. ``neff.timing`` stands below the compiler, which may
ask it for costs; it knows programs and the kernel language only. ``neff.profile`` stands above
both and below what runs programs: what it shows is derived from the model's events, and its advice
schedules programs again. ``neff.builds`` (from files to NEFFs, one or many) is apart from ``cli``
since its functions are public: other schedulers of builds call them.
"""

from __future__ import annotations

import pytest

from tests.architecture.imports import circles, edges, modules, room

RANKS: dict[str, list[set[str]]] = {
    "hlo_tools": [
        {"errors", "_messages", "_gc", "plugins"},
        {"schema"},
        {"wire"},
        {"files", "types", "store"},
        {"inference", "outline"},
        {"text"},
        {"ir"},
        {"rewrite", "verify", "slicing", "kernels", "trace"},
        {"evaluate", "lint", "extract", "frameworks"},
        {"kernel_calls", "diff", "doctor"},
        {"passes", "stats"},
        {"graph"},
        {"cli", "pytest_plugin"},
    ],
    "nki_lang": [
        {"base"},
        {"strict"},
        {"ir"},
        {"frontend", "semantics", "klir"},
        {"isa", "tracing"},
        {"language", "collectives", "execute"},
        {"kernel"},
    ],
    "nki_lang.base": [
        {"plain_files"},
        {"dtypes", "memory", "source", "atomic"},
        {"errors", "tracebacks"},
        {"services", "targets"},
    ],
    "neff": [
        {"errors", "in_place", "program", "version"},
        {"encoding", "options"},
        {"timing"},
        {"compiler", "container"},
        {"profile"},
        {"runtime"},
        {"device", "nkipy_runtime", "builds"},
        {"torch_trace"},
        {"cli"},
    ],
    "neff.compiler": [
        {"unsupported", "plans", "record"},
        {"graph", "assembly"},
        {"expansions"},
        {"lowering"},
        {"rewrites"},
        {"importing"},
        {"units"},
        {"coverage", "planned"},
        {"compile"},
    ],
    "neff.device": [
        {"pjrt", "activation"},
        {"programs"},
        {"executors"},
        {"executables"},
        {"launching"},
        {"plugin"},
        {"frameworks"},
    ],
}
"""Lowest rank first; rooms of one rank do not import each other."""

KNOWN_CIRCLES = {("nki_lang.ir.text", "nki_lang.ir.types")}
"""Circles of files at run time that stay: ``__str__`` of the IR's values prints them."""

KNOWN_TYPING_CIRCLES: list[set[str]] = [
    {
        "hlo_tools.ir.computation",
        "hlo_tools.ir.editing",
        "hlo_tools.ir.formats",
        "hlo_tools.ir.instruction",
        "hlo_tools.ir.module",
        "hlo_tools.ir.notebook",
        "hlo_tools.ir.ordering",
    },
    {
        "nki_lang.ir.text",
        "nki_lang.ir.types",
    },
]
"""Circles of files that imports under ``TYPE_CHECKING`` close as well; they can only shrink."""


@pytest.mark.parametrize("package", RANKS)
def test_every_room_has_a_rank(package: str) -> None:
    ranked = {name for names in RANKS[package] for name in names}
    assert {room(module, package) for module in modules(package) if module != package} == ranked


@pytest.mark.parametrize("package", RANKS)
def test_rooms_import_down_only(package: str) -> None:
    wrong = violations(package)
    assert not wrong, "\n".join(wrong)


def test_no_file_circles_at_run_time() -> None:
    found = {circle for package in RANKS for circle in circles(edges(package, typing=False))}
    assert found <= KNOWN_CIRCLES


@pytest.mark.parametrize("package", RANKS)
def test_no_new_file_circles_in_annotations(package: str) -> None:
    known = [set(circle) for circle in KNOWN_CIRCLES] + KNOWN_TYPING_CIRCLES
    found = circles(edges(package, typing=True))
    assert not [circle for circle in found if not any(set(circle) <= one for one in known)]


def violations(package: str) -> list[str]:
    """Imports between rooms that do not go down."""
    rank = {name: number for number, names in enumerate(RANKS[package]) for name in names}
    rooms = [
        (one, other, room(one, package), room(other, package))
        for one, other in edges(package, typing=True)
    ]
    return [
        f"{one} imports {other}"
        for one, other, its, others in rooms
        if its != others and rank[its] <= rank[others]
    ]
