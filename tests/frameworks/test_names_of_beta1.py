"""Names of beta 1 that ``nki`` lacks: the error states the replacement."""

from __future__ import annotations

import nki
import pytest


@pytest.mark.parametrize(
    ("name", "replacement"),
    [("simulate_kernel", r"nki\.simulate\(kernel\)"), ("baremetal", "nki.benchmark")],
)
def test_the_error_states_the_replacement(name: str, replacement: str) -> None:
    with pytest.raises(AttributeError, match=replacement):
        getattr(nki, name)
    assert not hasattr(nki, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'simulated'$"):
        _ = nki.simulated  # type: ignore[attr-defined]
