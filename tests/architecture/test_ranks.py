"""Inside a package imports go down the ranks; neither modules nor files form import cycles.

A module here is a file or folder directly in a package. A new one, or one at another
rank, is a decision: it is written down here. ``neff.timing`` stands below the compiler, which may
ask it for costs; it knows programs and the kernel language only. ``neff.profile`` stands above
both and below what runs programs: what it shows is derived from the model's events, and its advice
schedules programs again. ``neff.builds`` (from files to NEFFs, one or many) is apart from ``cli``
since its functions are public: other schedulers of builds call them.
"""

from __future__ import annotations

import re

import pytest

from tests.architecture.imports import ROOT, circles, edges, modules, top_module

RANKS: dict[str, list[set[str]]] = {
    "hlo_tools": [
        {"errors", "_messages", "_gc", "plugins"},
        {"schema"},
        {"wire"},
        {"files", "types", "store", "torch_device"},
        {"inference", "outline"},
        {"text"},
        {"ir"},
        {"rewrite", "verify", "slicing", "kernels", "trace"},
        {"evaluate", "lint", "extract", "frameworks"},
        {"kernel_calls", "diff", "doctor", "migrate", "python_source"},
        {"passes", "stats"},
        {"graph"},
        {"cli", "pytest_plugin"},
    ],
    "nki_lang": [
        {"base"},
        {"strict"},
        {"ir"},
        {"frontend", "semantics", "klir"},
        {"isa", "tracing", "analysis"},
        {"language", "collectives", "execute"},
        {"kernel"},
        {"beta1"},
    ],
    "nki_lang.base": [
        {"plain_files", "unknown_fields", "visible_cores"},
        {"dtypes", "memory", "source", "atomic"},
        {"errors", "library_files", "tracebacks"},
        {"services", "targets", "versions"},
    ],
    "neff": [
        {"errors", "in_place", "program", "version"},
        {"encoding", "options"},
        {"timing"},
        {"compiler", "container"},
        {"profile", "calibration"},
        {"runtime"},
        {"device", "nkipy_runtime", "builds"},
        {"torch_graph"},
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
        {"units", "complex_pairs"},
        {"factorizations"},
        {"coverage", "planned"},
        {"compile"},
    ],
    "neff.compiler.lowering": [
        {"tiles"},
        {"rows", "control", "movement", "exchanges"},
        {"lowerer"},
        {"products"},
        {"convolution", "collectives", "cumulative", "data_movement"},
        {"reductions", "indexing"},
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
"""Lowest rank first; modules of one rank do not import each other."""

KNOWN_CIRCLES = {("nki_lang.ir.text", "nki_lang.ir.types")}
"""Circles of files at run time that stay: ``__str__`` of the IR's values prints them."""

KNOWN_TYPING_CIRCLES: list[set[str]] = [
    {
        "hlo_tools.ir.added_calls",
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
def test_every_module_has_a_rank(package: str) -> None:
    ranked = {name for names in RANKS[package] for name in names}
    assert {
        top_module(module, package) for module in modules(package) if module != package
    } == ranked


@pytest.mark.parametrize("package", RANKS)
def test_ranks_import_down_only(package: str) -> None:
    wrong = violations(package)
    assert not wrong, "\n".join(wrong)


def test_no_file_circles_at_run_time() -> None:
    cycles = {circle for package in RANKS for circle in circles(edges(package, typing=False))}
    assert cycles <= KNOWN_CIRCLES


@pytest.mark.parametrize("package", RANKS)
def test_no_new_file_circles_in_annotations(package: str) -> None:
    allowed = [set(circle) for circle in KNOWN_CIRCLES] + KNOWN_TYPING_CIRCLES
    cycles = circles(edges(package, typing=True))
    assert not [
        circle
        for circle in cycles
        if not any(set(circle) <= allowed_cycle for allowed_cycle in allowed)
    ]


def violations(package: str) -> list[str]:
    """Imports between modules that do not go down."""
    rank = {name: number for number, names in enumerate(RANKS[package]) for name in names}
    module_names = [
        (importer, imported, top_module(importer, package), top_module(imported, package))
        for importer, imported in edges(package, typing=True)
    ]
    return [
        f"{importer} imports {imported}"
        for importer, imported, its, imported_module in module_names
        if its != imported_module and rank[its] <= rank[imported_module]
    ]


@pytest.mark.parametrize("package", RANKS)
def test_the_architecture_page_names_every_module(package: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    modules_of_package = {name for names in RANKS[package] for name in names}
    missing = {name for name in modules_of_package if not re.search(rf"\b{name}\b", page)}
    assert not missing, f"docs/architecture.md lacks {sorted(missing)} of {package}"
