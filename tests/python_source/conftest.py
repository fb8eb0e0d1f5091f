"""Generated files enable 64-bit types in the process that runs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def narrow_types_afterwards() -> Iterator[None]:
    """Give the tests after this one the element types that JAX has by default."""
    yield
    import jax

    jax.config.update("jax_enable_x64", False)
