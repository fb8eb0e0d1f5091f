"""Programs whose inner blocks read state of outer loops that is written over in place.

Each is a function and its arguments. A compiler that overlooks such a read computes other numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["NESTS"]

_LOOP = lax.fori_loop
_TURNS = np.int32(3)
_TABLE = np.arange(24, dtype=np.int32).reshape(4, 6)
_START = np.int32(7)


def outer_counter(n: Any, m: Any, x: Any) -> Any:
    """The inner body adds both counters."""
    return _LOOP(0, n, lambda i, a: _LOOP(0, m, lambda j, b: b + (i + j), a), x)


def outer_counter_of_a_table(n: Any, m: Any, x: Any) -> Any:
    """The same over a state of many elements."""
    return _LOOP(0, n, lambda i, a: _LOOP(0, m, lambda j, b: (b * 3 + i * j) & 1023, a), x)


def counter_two_loops_further_out(n: Any, m: Any, x: Any) -> Any:
    """The innermost of three loops reads the counters of both others."""

    def middle(i: Any, a: Any) -> Any:
        return _LOOP(0, m, lambda j, b: _LOOP(0, n, lambda k, c: c + (i + k) * (j + k), b), a)

    return _LOOP(0, n, middle, x)


def outer_state(n: Any, x: Any) -> Any:
    """The inner loop reads a table of the outer state, which the outer turn writes over."""

    def turn(i: Any, s: Any) -> Any:
        table, total = s
        total = _LOOP(0, n, lambda j, t: (t + table * (j + 1)) & 1023, total)
        return (table * 2 + 1) & 1023, total

    return _LOOP(0, n, turn, (x, x))


def outer_state_is_replaced_by_inner_result(n: Any, x: Any) -> Any:
    """The inner loop starts with the table, and reads the old one in each of its turns."""
    return _LOOP(0, n, lambda i, a: _LOOP(0, n, lambda j, b: (b * 3 + a * j + i) & 1023, a), x)


def slice_of_outer_state(n: Any, x: Any) -> Any:
    """The inner loop reads a row of the outer table, at its own counter."""

    def turn(i: Any, a: Any) -> Any:
        def inner(j: Any, b: Any) -> Any:
            return (b + lax.dynamic_slice(a, (j, 0), (1, 6))) & 1023

        return _LOOP(0, n, inner, a)

    return _LOOP(0, n, turn, x)


def row_is_written_over(n: Any, x: Any) -> Any:
    """The inner loop writes rows of the table, made of rows that are gone already."""

    def turn(i: Any, a: Any) -> Any:
        def inner(j: Any, b: Any) -> Any:
            row = lax.dynamic_slice(a, ((j + 3) % 4, 0), (1, 6))
            return lax.dynamic_update_slice(b, row + i, (j, 0))

        return _LOOP(0, n, inner, a)

    return _LOOP(0, n, turn, x)


def branch_in_a_loop(n: Any, x: Any) -> Any:
    """A branch of the inner loop reads the outer table."""

    def turn(i: Any, a: Any) -> Any:
        def inner(j: Any, b: Any) -> Any:
            return lax.cond(
                b[0, 0] % 2 == j % 2, lambda: jnp.sort(b, 1) + a, lambda: jnp.sort(b, 0) - i
            )

        return _LOOP(0, n, inner, a)

    return _LOOP(0, n, turn, x)


def loop_in_a_branch(n: Any, x: Any) -> Any:
    """A loop in a branch of a loop reads the outer counter and the outer table."""

    def turn(i: Any, a: Any) -> Any:
        def taken() -> Any:
            return _LOOP(0, n, lambda j, b: (jnp.sort(b, 1) + a * j + i) & 1023, a)

        return lax.cond(a[0, 1] % 2 == 0, taken, lambda: jnp.sort(a, 0) + 1)

    return _LOOP(0, n, turn, x)


def data_decides(n: Any, x: Any) -> Any:
    """The inner loop ends when an element is large, and adds the outer table in each turn."""

    def turn(i: Any, a: Any) -> Any:
        return lax.while_loop(lambda b: b[0, 0] < 200 * (i + 1), lambda b: b * 2 + (a + 1), a)

    return _LOOP(0, n, turn, x)


def inner_trips_depend_on_outer(n: Any, x: Any) -> Any:
    """The inner loop runs as often as the outer table says, which it reads, too."""

    def turn(i: Any, a: Any) -> Any:
        return _LOOP(0, a[0, 0] % 3 + 2, lambda j, b: (b * 2 + a * j + 1) & 1023, a)

    return _LOOP(0, n, turn, x)


def parts_change_places(n: Any, x: Any) -> Any:
    """The inner loop swaps its parts and reads both of the outer loop's."""

    def turn(i: Any, s: Any) -> Any:
        def inner(j: Any, t: Any) -> Any:
            return (t[1] + s[0] + j) & 1023, (t[0] + s[1] * 2 + i) & 1023

        return _LOOP(0, n, inner, s)

    return _LOOP(0, n, turn, (x, x + 5))


def innermost_depends_on_the_middle_alone(n: Any, x: Any) -> Any:
    """The innermost loop reads the middle counter, the middle loop the outer table."""

    def middle(state: Any) -> Any:
        count, rows = state
        step = _LOOP(count % 3, 2, lambda k, b: count, count % 3)
        return count + 1, jnp.maximum(jnp.flip(rows, 0), step + 3)

    def outer(state: Any) -> Any:
        count, a = state
        _, rows = lax.while_loop(lambda s: s[0] < n, middle, (count, a))
        return count + 1, rows + a

    return lax.while_loop(lambda s: s[0] < n, outer, (n - 2, x))


NESTS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (outer_counter, (np.int32(2), _TURNS, _START)),
    (outer_counter_of_a_table, (np.int32(2), _TURNS, _TABLE)),
    (counter_two_loops_further_out, (np.int32(2), _TURNS, _START)),
    (outer_state, (_TURNS, _TABLE)),
    (outer_state_is_replaced_by_inner_result, (_TURNS, _TABLE)),
    (slice_of_outer_state, (_TURNS, _TABLE)),
    (row_is_written_over, (_TURNS, _TABLE)),
    (branch_in_a_loop, (_TURNS, _TABLE)),
    (loop_in_a_branch, (_TURNS, _TABLE)),
    (data_decides, (_TURNS, _TABLE)),
    (inner_trips_depend_on_outer, (_TURNS, _TABLE)),
    (parts_change_places, (_TURNS, _TABLE)),
    (innermost_depends_on_the_middle_alone, (_TURNS, _TABLE)),
]
"""Functions that compile to nested loops, and arguments that tell right from wrong."""
