"""Convolutions whose window is larger than their result, as gradients by weights are.

What is summed over, the places of the window, lies on partitions: rows of the window (of all images,
and of parts of them where that leaves partitions free) with its columns along them. A column of the
kernel is then the stationary operand of a product, and what all places of the result see at it are
the moving columns: of the image that is a few runs of one tile. The rows of the image come once for each
row of the result. Sums stay in PSUM until the last place.

Where 32 or 64 features of the kernel leave half of the result's partitions free, neighbouring
columns of the window stand side by side there (``together``), and their sums are added at the end.
Batch groups share products: of each only a block on the diagonal is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.emitter import Tile
from neff.compiler.lowering.image_rows import ImageRows, Places, even_cuts, lying, part_of
from neff.compiler.lowering.operands import turned_into
from neff.compiler.lowering.taps import PARTITIONS, Axis
from neff.compiler.lowering.task import Port, window
from neff.compiler.lowering.tiling import affordable
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = ["LongWindow", "multiply"]

_BANK = 512
"""Sums in each partition of a PSUM bank."""

_BANKS = 6
"""Banks of sums under way at once."""

_IMAGE = 32 * 1024
"""Bytes of each partition for a part of the image."""

_SIDE_BY_SIDE = (32, 64)
"""Features of the kernel of which several columns go into one product."""

_WORTH_TURNING = 4096
"""Results from which on they are transposed when that makes transfers of whole rows."""

F32 = BY_NAME["float32"]


@dataclass(frozen=True, slots=True)
class LongWindow:
    """A convolution as this kernel does it.

    Attributes:
        rows: the image (groups, samples, channels, planes, rows, columns), with rows of the window on
            partitions; samples become results.
        kernel: (groups, channels, features, planes, rows, columns).
        out: (groups, samples, features, planes, rows, columns).
        exact: the tensor engine transposes bit for bit.
    """

    rows: ImageRows
    kernel: Port
    out: Port
    exact: bool

    @property
    def axes(self) -> tuple[Axis, Axis, Axis]:
        """Planes, rows, columns."""
        return self.rows.axes

    @property
    def dtype(self) -> DType:
        """Type in which the tensor engine reads."""
        return self.rows.dtype

    @property
    def image(self) -> Port:
        return self.rows.port

    @property
    def groups(self) -> int:
        return self.image.view.shape[0]

    @property
    def samples(self) -> int:
        """Samples of a group."""
        return self.image.view.shape[1]

    @property
    def features(self) -> int:
        """Features of a group."""
        return self.kernel.view.shape[2]

    @property
    def together(self) -> int:
        """Columns of the window in one product."""
        columns = self.axes[2]
        if self.groups > 1 or self.features not in _SIDE_BY_SIDE or columns.stride > 1:
            return 1
        return max(1, min(PARTITIONS // self.features, columns.window // self.rows.parts))

    @property
    def blocks(self) -> list[_Block]:
        """What is summed up at once: as many results as PSUM has room for."""
        return [
            _Block(*groups, *features, *lines, *samples)
            for groups, features in self._stationary()
            for samples in self._samples(groups[1])
            for lines in self._lines(groups[1] * samples[1])
        ]

    def _stationary(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        most = min(_BANK, _BANK * _BANKS // self.run) // self.samples
        each = max(1, min(PARTITIONS // self.features, most, self.groups))
        for group in range(0, self.groups, each):
            for first in range(0, self.features, PARTITIONS):
                count = min(PARTITIONS, self.features - first)
                yield (group, min(each, self.groups - group)), (first, count)

    def _samples(self, groups: int) -> list[tuple[int, int]]:
        run = self.run
        most = _BANKS * (_BANK // run) if groups == 1 else self.samples
        most = min(most, max(1, _IMAGE // (self.dtype.itemsize * self.rows.wide(self.together))))
        return even_cuts(self.samples, most)

    def _lines(self, samples: int) -> list[tuple[int, int]]:
        run = self.run
        in_bank = _BANK // (run * samples)
        most = in_bank * _BANKS if in_bank else max(1, _BANKS // -(-samples // (_BANK // run)))
        width = self.rows.wide(self.together) * samples * self.dtype.itemsize
        return even_cuts(len(self.rows.lines), min(most, max(1, _IMAGE // width)))

    @property
    def run(self) -> int:
        """Columns of the image that one product needs."""
        columns = self.axes[2]
        return (self.together - 1) * columns.dilation + columns.places


@dataclass(frozen=True, slots=True)
class _Block:
    """Results that are summed up at once: first and number of everything."""

    group: int
    groups: int
    feature: int
    features: int
    line: int
    lines: int
    sample: int
    samples: int

    @property
    def rows(self) -> int:
        """Partitions of the sums, for each column together."""
        return self.groups * self.features

    @property
    def along(self) -> int:
        """Samples of all its groups."""
        return self.groups * self.samples


def multiply(spec: LongWindow, tensors: dict[str, Tile]) -> None:
    """The body of the kernel."""
    blocks, places = spec.blocks, spec.rows.places
    affordable(len(blocks) * len(places) * spec.axes[2].window)
    for block in blocks:
        _Sums(spec, tensors, block).run(places)


class _Sums:
    def __init__(self, spec: LongWindow, tensors: dict[str, Tile], block: _Block) -> None:
        self._spec, self._block = spec, block
        ports = {"image": spec.image, "kernel": spec.kernel, "out": spec.out}
        self._ports = ports
        self._tensors = {name: tensors[port.view.buffer] for name, port in ports.items()}
        together, run = spec.together, spec.run
        self._runs = [
            (lines, samples, nl.ndarray(
                (together * block.rows, lines[1], run, samples[1]), dtype=F32, buffer=nl.psum
            ))
            for lines, samples in self._slices()
        ]  # fmt: skip
        self._started = False

    def _slices(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """(lines, samples) of each bank, relative to the block."""
        block, run = self._block, self._spec.run
        in_bank = _BANK // (run * block.along)
        if in_bank:
            for lines in even_cuts(block.lines, in_bank):
                yield lines, (0, block.along)
            return
        for line in range(block.lines):
            for samples in even_cuts(block.along, _BANK // run):
                yield (line, 1), samples

    def run(self, places: list[Places]) -> None:
        spec, block = self._spec, self._block
        columns = spec.axes[2].window // spec.rows.parts
        each = spec.dtype.itemsize * block.lines * block.along
        most = columns
        while most > spec.together and spec.rows.wide(most) * each > _IMAGE:
            most = -(-most // 2)
        for some in places:
            for first in range(0, columns, most):
                self._add(some, first, min(most, columns - first))
        self._finish()

    def _add(self, places: Places, first: int, count: int) -> None:
        """The products of some columns of the window."""
        spec, columns = self._spec, self._spec.axes[2]
        image, kernel = self._image(places, first, count), self._kernel(places, first, count)
        for begin in range(0, count, spec.together):
            some = min(spec.together, count - begin)
            run = (some - 1) * columns.dilation + columns.places
            at = begin * columns.dilation
            span = slice(at, at + (run - 1) * columns.stride + 1, columns.stride)
            for lines, samples, total in self._runs:
                moving = image[:, part_of(lines), span, part_of(samples)]
                part = total[0 : some * self._block.rows, :, 0:run]
                nisa.nc_matmul(
                    part, kernel[:, begin : begin + some], moving, accumulate=self._started
                )
            self._started = True

    # -- operands ------------------------------------------------------------------------------

    def _load(self, tile: Tile, name: str, start: int, pattern: list[list[int]]) -> None:
        nisa.dma_copy(tile, window(self._tensors[name], self._ports[name], start, pattern))

    def _kernel(self, places: Places, first: int, count: int) -> Tile:
        """(places, columns, features of the block)."""
        spec, block = self._spec, self._block
        strides = spec.kernel.view.strides
        shape, steps = (count, block.rows), (strides[5], strides[2])
        tile, order = lying(places.count, shape, steps, spec.dtype)
        width = spec.axes[2].window // spec.rows.parts
        head = block.group * strides[0] + block.feature * strides[2]
        for one in places.stacks:
            start = head + one.channel * strides[1] + one.plane * strides[3]
            start += one.row * strides[4] + (one.part * width + first) * strides[5]
            pattern = [[strides[4], one.count], *([steps[dim], shape[dim]] for dim in order)]
            self._load(tile[one.at : one.at + one.count], "kernel", start, pattern)
        return tile.permute([0, *(1 + order.index(dim) for dim in range(2))])

    def _image(self, places: Places, first: int, count: int) -> Tile:
        """(places, lines, columns, samples of the block)."""
        block, rows = self._block, self._spec.rows
        lines = rows.lines[block.line : block.line + block.lines]
        samples = block.group, block.sample, block.along
        return rows.tile(self._tensors["image"], places, (first, count), lines, samples)

    # -- results -------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Sums of a block go to HBM: those of columns together added, groups' blocks picked."""
        spec, block = self._spec, self._block
        shape = (block.rows, block.lines, spec.axes[2].places, block.along)
        dtype = F32 if block.groups > 1 or spec.together > 1 else spec.out.dtype
        dims = self._out_dims()
        if block.groups > 1:
            made = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
            order = [0, 1, 2]
        else:
            order = sorted(range(3), key=lambda dim: -abs(dims[dim][0]))
            lying = nl.ndarray(
                (shape[0], *(shape[1 + dim] for dim in order)), dtype=dtype, buffer=nl.sbuf
            )
            made = lying.permute([0, *(1 + order.index(dim) for dim in range(3))])
        self._drain(made)
        if block.groups > 1:
            made = self._diagonal(made)
        self._store(made)

    def _drain(self, made: Tile) -> None:
        spec, block = self._spec, self._block
        columns = spec.axes[2]
        for lines, samples, total in self._runs:
            part = made[:, part_of(lines), :, part_of(samples)]
            nisa.tensor_copy(part, total[0 : block.rows, :, 0 : columns.places])
            for one in range(1, spec.together):
                at, first = one * block.rows, one * columns.dilation
                more = nl.ndarray(part.shape, dtype=F32, buffer=nl.sbuf)
                where = slice(first, first + columns.places)
                nisa.tensor_copy(more, total[at : at + block.rows, :, where])
                nisa.tensor_tensor(part, part, more, nl.add)

    def _diagonal(self, made: Tile) -> Tile:
        """(rows, lines, columns, samples) of (rows, lines, columns, groups and samples): of each
        row what belongs to its group."""
        block, features = self._block, self._spec.features
        rows, lines, columns, _ = made.shape
        count = block.samples
        flat = made.reshape((rows, lines * columns, block.groups, count))
        for sign, offset in ((1, 0), (-1, features - 1)):
            kept = nl.ndarray(flat.shape, dtype=F32, buffer=nl.sbuf)
            pattern = [[0, lines * columns], [-sign * features, block.groups], [0, count]]
            nisa.affine_select(
                kept, pattern, sign, flat, 0.0, cmp_op=nl.greater_equal, offset=offset
            )
            flat = kept
        total = nl.ndarray((rows, lines * columns, count), dtype=F32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, flat.permute([0, 1, 3, 2]), axis=3)
        return total.reshape((rows, lines, columns, count))

    def _out_dims(self) -> list[tuple[int, int]]:
        """(step, count) of a block's lines, columns and samples; lines in one step."""
        spec, block = self._spec, self._block
        _, samples, _, _, row, column = spec.out.view.strides
        return [(row, block.lines), (column, spec.axes[2].places), (samples, block.samples)]

    def _store(self, made: Tile) -> None:
        """(features, lines, columns, samples) to their places, line by line where planes are."""
        spec, block = self._spec, self._block
        strides = spec.out.view.strides
        start = block.group * strides[0] + block.feature * strides[2] + block.sample * strides[1]
        lines = spec.rows.lines[block.line : block.line + block.lines]
        for plane in sorted({plane for plane, _ in lines}):
            rows = [row for number, row in lines if number == plane]
            first = lines.index((plane, rows[0]))
            self._store_plane(
                made[:, first : first + len(rows)],
                start + plane * strides[3] + rows[0] * strides[4],
            )

    def _store_plane(self, made: Tile, start: int) -> None:
        strides = self._spec.out.view.strides
        steps = (strides[4], strides[5], strides[1])
        if made.shape[0] > 1 and strides[2] == 1 and prod(made.shape) >= _WORTH_TURNING:
            self._store_turned(made, start, steps)
            return
        order = sorted(range(3), key=lambda dim: -abs(steps[dim]))
        dims = [[steps[dim], made.shape[1 + dim]] for dim in order]
        tile = made.permute([0, *(1 + dim for dim in order)])
        target = self._reached(start, [[strides[2], made.shape[0]], *dims])
        nisa.dma_copy(target, _typed(tile, self._spec.out.dtype))

    def _store_turned(self, made: Tile, start: int, steps: tuple[int, int, int]) -> None:
        """Features become innermost: transposed by 128 samples of one place."""
        spec = self._spec
        count, lines, columns, samples = made.shape
        made = _typed(made, spec.out.dtype)
        for line, column in product(range(lines), range(columns)):
            for first in range(0, samples, PARTITIONS):
                some = min(PARTITIONS, samples - first)
                buffer = nl.psum if spec.exact else nl.sbuf
                turned = nl.ndarray((some, count), dtype=made.dtype, buffer=buffer)
                turned_into(turned, made[:, line, column, first : first + some], exact=spec.exact)
                if spec.exact:
                    lying = nl.ndarray((some, count), dtype=made.dtype, buffer=nl.sbuf)
                    nisa.tensor_copy(lying, turned)
                    turned = lying
                at = start + line * steps[0] + column * steps[1] + first * steps[2]
                nisa.dma_copy(self._reached(at, [[steps[2], some], [1, count]]), turned)

    def _reached(self, start: int, pattern: list[list[int]]) -> Tile:
        return window(self._tensors["out"], self._ports["out"], start, pattern)


def _typed(tile: Tile, dtype: DType) -> Tile:
    if tile.dtype == dtype:
        return tile
    made = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(made, tile)
    return made
