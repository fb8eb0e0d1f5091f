"""Shared fixtures and options; tests of frameworks that are not installed are deselected."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

ROOT = Path(__file__).resolve().parent.parent

# One BLAS thread everywhere: results and timings do not depend on the machine's core count.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# An exception that is a bug of the compiler fails a test, instead of being reported as one.
os.environ.setdefault("NKI_HLO_UNGUARDED", "1")

# What a test compiles it compiles, whatever runs before it kept.
os.environ.setdefault("NKI_HLO_NEFF_CACHE", "0")

# CI draws the same examples in every run, and a slow machine fails none of them;
# scripts/test --night draws others each night.
_PROFILE = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("project", _PROFILE)
settings.register_profile("night", _PROFILE, derandomize=False, print_blob=True)
settings.load_profile("project")

_constants_of_imports = getattr(providers, "_get_local_constants", None)


def _constants_to_draw() -> Constants:
    """Constants that Hypothesis draws: none of the modules imported so far, except at night.

    Which modules are imported depends on the tests that ran before in the same worker.
    """
    if settings.default.derandomize or _constants_of_imports is None:
        return Constants()
    return _constants_of_imports()


# tests/architecture/test_examples.py fails if a later Hypothesis has another hook.
providers._get_local_constants = _constants_to_draw

_NEEDS = {
    "jax": ("jax",),
    "torch": ("torch",),
    "torch_xla": ("torch", "torch_xla"),
    "xla_text": ("jaxlib._hlo",),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite golden files")


def _is_absent(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is None
    except ModuleNotFoundError:  # the package around it
        return True


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out a file that imports a framework that is not installed."""
    if collection_path.suffix != ".py":
        return None
    text = collection_path.read_text()
    imported = set(re.findall(r"^(?:import|from) (jax|torch|torch_xla)\b", text, re.MULTILINE))
    return True if any(map(_is_absent, imported)) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of a framework that is not installed (``scripts/test --light``)."""
    absent = {marker for marker, packages in _NEEDS.items() if any(map(_is_absent, packages))}
    dropped = [item for item in items if any(item.get_closest_marker(name) for name in absent)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """True when the run was asked to rewrite golden files."""
    return bool(request.config.getoption("--update"))


@pytest.fixture(scope="session")
def python_environment() -> dict[str, str]:
    """Environment for a subprocess that must find this checkout, compat names at the end."""
    environment = dict(os.environ)
    paths = [str(ROOT), str(ROOT / "compat")]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


# The checkout itself is enough to run the tests; an installed copy is not needed.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
if str(ROOT / "compat") not in sys.path:
    sys.path.append(str(ROOT / "compat"))
