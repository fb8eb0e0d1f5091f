"""``lnc=2``: cores that take branches and loops together meet on every path."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from neff.options import CompileOptions
from tests.compiler.compiling import check

BOTH = CompileOptions(lnc=2)
TABLE = np.random.default_rng(7).integers(0, 9, (6, 5)).astype(np.int32)


def _branch_in_a_loop(n: Any, x: Any) -> Any:
    def turn(i: Any, a: Any) -> Any:
        return lax.cond(
            a[0, 0] % 2 == 0, lambda: jnp.sort(a, 1), lambda: jnp.sort(a, 0) + 1
        )  # fmt: skip

    return lax.fori_loop(0, n, turn, x)


def _loop_that_may_not_turn(n: Any, x: Any) -> Any:
    def turn(i: Any, a: Any) -> Any:
        return lax.fori_loop(0, a[0, 0] % 2, lambda j, b: jnp.sort(b, 0) + j, a) + 1

    return lax.fori_loop(0, n, turn, x)


def _branches_in_branches(n: Any, x: Any) -> Any:
    def chosen(a: Any) -> Any:
        return lax.cond(
            a[1, 1] % 2 == 0, lambda: jnp.sort(a, 1) + 1, lambda: jnp.sort(a, 0) + 3
        )  # fmt: skip

    def turn(i: Any, a: Any) -> Any:
        return lax.switch(
            a[0, 0] % 3, [lambda: chosen(a), lambda: jnp.sort(a, 0) + 1, lambda: a + 2]
        )

    return lax.fori_loop(0, n, turn, x)


@pytest.mark.parametrize("turns", [3, 5])
@pytest.mark.parametrize(
    "function", [_branch_in_a_loop, _loop_that_may_not_turn, _branches_in_branches]
)
def test_cores_take_the_same_branch(function: Any, turns: int) -> None:
    check(function, np.int32(turns), TABLE, options=BOTH)
