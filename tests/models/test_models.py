"""Whole models from NEFFs beside jaxlib: what comes out, gradients, and a step of the optimiser."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("jax")

from tests.models.model import KINDS
from tests.models.running import measure
from tests.models.table import FAMILIES, PURE_JAX, WITH_FLAX, model_of

pytestmark = pytest.mark.jax

CHEAP = (
    ("llama", "gradient"), ("mamba", "forward"), ("mixtral", "forward"),
    ("beam_search", "forward"), ("capacity", "gradient"), ("graph_attention", "gradient"),
    ("sampled", "gradient"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), CHEAP)
def test_a_cheap_program_gives_what_jaxlib_gives(name: str, kind: str, tmp_path: Path) -> None:
    measure(model_of(name), kind, "trn2", tmp_path)


@pytest.mark.slow("builds every model three times: some minutes")
@pytest.mark.skipif(not importlib.util.find_spec("optax"), reason="needs flax and optax")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*PURE_JAX, *FAMILIES, *WITH_FLAX])
def test_a_program_gives_what_jaxlib_gives(name: str, kind: str, tmp_path: Path) -> None:
    measure(model_of(name), kind, "trn2", tmp_path)
