"""Results of a direct convolution: products in PSUM, collected in SBUF and stored together.

GpSimd creates the descriptors of stores sequentially; so a store covers as much of the result as is
contiguous there.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.convolution.taps import Box, Plan, Tap
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.task import window

__all__ = ["Results", "merged"]

_BANK_SUMS = 512
"""Sums of a PSUM bank in each partition."""

WindowReader = Callable[[int, Box, int, tuple[int, int, int]], Tile]
"""(chunk of channels, box, block of each lane, offset of a tap) -> elements that its windows
read.
"""


class Results:
    """Boxes of some outputs of a group.

    Args:
        plan: the plan of the convolution.
        tensor: the result in HBM.
        weights: for each chunk of channels (channels, taps, columns and outputs).
        group: number of the group.
        outputs: first and number of the outputs.
    """

    def __init__(
        self, plan: Plan, tensor: Tile, weights: list[Tile], group: int, outputs: tuple[int, int]
    ) -> None:
        self._plan, self._tensor, self._weights = plan, tensor, weights
        strides = plan.out.view.strides
        self._start = group * strides[0] + outputs[0] * strides[2]
        self._outputs = outputs[1]

    def multiply(self, windows: WindowReader, box: Box) -> None:
        """Compute a box of the result and store it."""
        plan = self._plan
        planes, columns, rows = plan.axes
        lines: dict[int, dict[tuple[int, int], list[Tap]]] = {}
        for (plane, column, row), taps in plan.phases:
            if (
                box.planes[0] * planes.period + plane < planes.places
                and box.blocks[0] * plan.width + column < columns.places
                and box.rows[0] * rows.period + row < rows.places
            ):
                lines.setdefault(plane, {})[column, row] = taps
        for plane, phases in lines.items():
            start = self._first(box, plane)
            (self._by_rows if plan.by_rows else self._by_features)(windows, box, phases, start)

    def _first(self, box: Box, plane: int) -> int:
        planes, _, rows = self._plan.axes
        _, images, _, *steps = self._plan.out.view.strides
        first = box.blocks[0] * self._plan.width
        return (
            self._start + box.images[0] * images + first * steps[1]
            + (box.planes[0] * planes.period + plane) * steps[0]
            + box.rows[0] * rows.period * steps[2]
        )  # fmt: skip

    # -- places on partitions ------------------------------------------------------------------

    def _by_rows(
        self, windows: WindowReader, box: Box, phases: dict[tuple[int, int], list[Tap]], start: int
    ) -> None:
        plan = self._plan
        across, down = (1 + max(phase[dim] for phase in phases) for dim in range(2))
        width = across * plan.together
        shape = (box.size, down, box.run, width, self._outputs)
        result = nl.ndarray(shape, dtype=plan.out.dtype, buffer=nl.sbuf)
        joined = across if width * self._outputs <= _BANK_SUMS else 1
        parts = product(range(down), range(0, across, joined), self._runs(box, width))
        for row, column, (first, block_count) in parts:
            size = box.size_of(first)
            columns = joined * plan.together
            total = nl.ndarray(
                (size, block_count, columns, self._outputs), nl.float32, buffer=nl.psum
            )
            for block, column_index in product(range(block_count), range(joined)):
                span = slice(column_index * plan.together, (column_index + 1) * plan.together)
                taps = phases[column + column_index, row]
                self._product(total[:, block, span], windows, box, first + block, taps)
            begin = column * plan.together
            span = slice(begin, begin + columns)
            nisa.tensor_copy(result[0:size, row, first : first + block_count, span], total)
        self._store_places(result, box, start)

    def _runs(self, box: Box, width: int) -> list[tuple[int, int]]:
        """Return (first, count) of blocks of each lane whose sums share a bank; all have the same
        lanes.
        """
        max_blocks = max(1, _BANK_SUMS // (width * self._outputs))
        runs: list[tuple[int, int]] = []
        first = 0
        for end in (box.last_lane_blocks, box.run):
            while first < end:
                runs.append((first, min(max_blocks, end - first)))
                first += runs[-1][1]
        return runs

    def _product(
        self, total: Tile, windows: WindowReader, box: Box, block: int, taps: list[Tap]
    ) -> None:
        if not taps:
            nisa.memset(total, 0)
            return
        columns = self._plan.together * self._outputs
        by_rows = self._plan.by_rows
        if by_rows:
            total = total.reshape((total.shape[0], columns))
        for step, (tap, (chunk, tile)) in enumerate(product(taps, enumerate(self._weights))):
            window, weights = windows(chunk, box, block, tap.offset), tile[:, tap.weights]
            pair = (window, weights) if by_rows else (weights, window)
            nisa.nc_matmul(total, *pair, accumulate=step > 0)

    def _store_places(self, result: Tile, box: Box, start: int) -> None:
        """Store each lane's columns contiguously; the last lane may have fewer."""
        plan = self._plan
        _, images, features, _, step, row = plan.out.view.strides
        width = result.shape[3]
        columns = min(width, plan.axes[1].places - box.blocks[0] * plan.width)
        rows_per_lane = box.images[1] * box.rows[1]
        full = box.lanes if box.last_lane_blocks == box.run else box.lanes - 1
        parts = [(0, full, box.run), (full, box.lanes - full, box.last_lane_blocks)]
        for lane, lanes, run in parts:
            if not lanes:
                continue
            pattern = [
                [box.run * plan.width * step, lanes], [images, box.images[1]],
                [row * plan.axes[2].period, box.rows[1]], [row, result.shape[1]],
                [step * plan.width, run], [step, columns], [features, self._outputs],
            ]  # fmt: skip
            source = result[
                lane * rows_per_lane : (lane + lanes) * rows_per_lane, :, 0:run, 0:columns
            ]
            self._move(source, start + lane * box.run * plan.width * step, pattern)

    # -- features on partitions ----------------------------------------------------------------

    def _by_features(
        self, windows: WindowReader, box: Box, phases: dict[tuple[int, int], list[Tap]], start: int
    ) -> None:
        plan = self._plan
        across, down = (1 + max(phase[dim] for phase in phases) for dim in range(2))
        columns = plan.together * self._outputs
        positions = (box.images[1], box.blocks[1], box.rows[1])
        shape = (columns, *positions[:2], across, positions[2], down)
        result = nl.ndarray(shape, dtype=plan.out.dtype, buffer=nl.sbuf)
        for (column, row), taps in phases.items():
            total = nl.ndarray((columns, *positions), nl.float32, buffer=nl.psum)
            self._product(total, windows, box, 0, taps)
            nisa.tensor_copy(result[:, :, :, column, :, row], total)
        _, images, features, _, step, row = plan.out.view.strides
        outer_pattern = [
            [images, positions[0]], [step * plan.width, positions[1]], [step, across],
            [row * plan.axes[2].period, positions[2]], [row, down],
        ]  # fmt: skip
        first = box.blocks[0] * plan.width
        for column in range(min(plan.together, plan.axes[1].places - first)):
            source = result[column * self._outputs : (column + 1) * self._outputs]
            self._move(source, start + column * step, [[features, self._outputs], *outer_pattern])

    def _move(self, source: Tile, start: int, pattern: list[list[int]]) -> None:
        target = window(self._tensor, self._plan.out, start, merged(pattern))
        nisa.dma_copy(target, source)


def merged(pattern: list[list[int]]) -> list[list[int]]:
    """Return the pattern without dimensions of one element, adjacent ones joined; the first is
    kept.
    """
    head, *tail = pattern
    dims: list[list[int]] = []
    for step, count in tail:
        if count == 1:
            continue
        if dims and dims[-1][0] == step * count:
            dims[-1] = [step, dims[-1][1] * count]
        else:
            dims.append([step, count])
    return [head, *dims]
