"""Whole models from NEFFs beside jaxlib: what comes out, gradients, and a step of the optimiser."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("jax")

from tests.models.model import KINDS
from tests.models.running import measure
from tests.models.table import PLAIN, WITH_FLAX, model_of

pytestmark = pytest.mark.jax

CHEAP = ("llama", "mamba", "mixtral")


@pytest.mark.parametrize("name", CHEAP)
def test_a_gradient_is_what_jaxlib_gives(name: str, tmp_path: Path) -> None:
    measure(model_of(name), "gradient", "trn2", tmp_path)


@pytest.mark.slow("builds every model three times: some minutes")
@pytest.mark.skipif(not importlib.util.find_spec("optax"), reason="needs flax and optax")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*PLAIN, *WITH_FLAX])
def test_a_program_gives_what_jaxlib_gives(name: str, kind: str, tmp_path: Path) -> None:
    measure(model_of(name), kind, "trn2", tmp_path)
