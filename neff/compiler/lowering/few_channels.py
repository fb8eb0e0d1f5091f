"""Convolutions of few channels, as the first ones of image models are.

A tap of three channels keeps three of the tensor engine's 128 rows busy. So what a window sees is
laid side by side: rows of the result lie on partitions, and along them all rows of the image that
their windows see (``image_rows.py``). Windows of ``together`` neighbouring columns are then a run of that tile in each
row of the window; the tensor engine transposes it (on trn1 the vector engine), and a product with a band
of the weights, zero where a column is outside a result's window, makes these columns of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
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

__all__ = ["FewChannels", "multiply_few"]

_BANK = 512
"""Sums in each partition of a PSUM bank."""

_BANK_BYTES = 2048

_SPACE = 32 * 1024
"""Bytes of each partition for a part of the image, and for a part of the result."""

_WEIGHTS = 200
"""Cycles for the stationary operand of a product, beside two for each moving column and pass."""

F32 = BY_NAME["float32"]


@dataclass(frozen=True, slots=True)
class FewChannels:
    """A convolution as this kernel does it.

    Attributes:
        rows: the image, with rows of the result on partitions; its lines are rows of the window.
        kernel: (1, channels, outputs, planes, rows, columns).
        out: (1, images, outputs, planes, rows, columns).
        exact: the tensor engine transposes bit for bit.
    """

    rows: ImageRows
    kernel: Port
    out: Port
    exact: bool

    @property
    def dtype(self) -> DType:
        return self.rows.dtype

    @property
    def columns(self) -> Axis:
        """``window`` are places of the result, ``places`` taps."""
        return self.rows.axes[2]

    @property
    def channels(self) -> int:
        return self.kernel.view.shape[1]

    @property
    def outputs(self) -> int:
        return self.kernel.view.shape[2]

    @property
    def together(self) -> int:
        """Columns of one product: so many that all take the least time."""
        width = self.columns.window // self.rows.parts
        found = range(1, min(width, _BANK) + 1)
        return min((one for one in found if one == 1 or self._fits(one)), key=self._cost)

    def _fits(self, together: int) -> bool:
        return self.run(together) * self.channels <= PARTITIONS

    def _cost(self, together: int) -> float:
        parts = -(-together * self.outputs // _BANK)
        each = parts * _WEIGHTS + 4 * max(96, together * self.outputs) + 2 * PARTITIONS
        return len(self.chunks(together)) * each / together

    def run(self, together: int) -> int:
        """Columns of the image that so many columns of the result see."""
        return self.rows.wide(together)

    def chunks(self, together: int) -> list[tuple[int, int]]:
        """(first, count) of the lines that are contracted at once."""
        most = max(1, PARTITIONS // (self.run(together) * self.channels))
        return even_cuts(len(self.rows.lines), most)


def multiply_few(spec: FewChannels, tensors: dict[str, Tile]) -> None:
    """The body of the kernel."""
    places, columns = spec.rows.places, spec.columns.window
    affordable(len(places) * columns * len(spec.chunks(spec.together)))
    _FewChannels(spec, tensors).run(places)


class _FewChannels:
    def __init__(self, spec: FewChannels, tensors: dict[str, Tile]) -> None:
        self._spec = spec
        self._image = tensors[spec.rows.port.view.buffer]
        self._kernel = tensors[spec.kernel.view.buffer]
        self._out = tensors[spec.out.view.buffer]
        self._together = spec.together
        self._run = spec.run(self._together)
        self._chunks = spec.chunks(self._together)
        self._features = even_cuts(spec.outputs, _BANK // self._together)
        strides = spec.kernel.view.strides
        self._channels_last = strides[1] <= strides[5]

    def run(self, places: list[Places]) -> None:
        """Weights first, then the rows of the result by 128, and some columns of them at once."""
        spec = self._spec
        weights = [self._weights(*chunk) for chunk in self._chunks]
        size, lines = spec.dtype.itemsize, len(spec.rows.lines)
        width = spec.columns.window // spec.rows.parts
        most = width
        while most > self._together and (
            lines * spec.rows.wide(most) * spec.channels * size > _SPACE
            or most * spec.outputs * spec.out.dtype.itemsize > _SPACE
        ):
            most = max(self._together, -(-most // 2))
        for some in places:
            for first in range(0, width, most):
                self._part(some, first, min(most, width - first), weights)

    # -- weights -------------------------------------------------------------------------------

    def _weights(self, first: int, count: int) -> Tile:
        """(what some lines see, columns together, outputs): a band."""
        spec, columns = self._spec, self._spec.columns
        shape = (count * self._run * spec.channels, self._together, spec.outputs)
        tile = nl.ndarray(shape, dtype=spec.dtype, buffer=nl.sbuf)
        if self._run > columns.places:
            nisa.memset(tile, 0)
        for number, (plane, row) in enumerate(spec.rows.lines[first : first + count]):
            for column in range(self._together):
                self._band(tile[:, column], number, (plane, row), column)
        return tile

    def _band(self, tile: Tile, number: int, line: tuple[int, int], column: int) -> None:
        """The weights of one line for one column of the result."""
        spec, columns = self._spec, self._spec.columns
        strides, channels = spec.kernel.view.strides, spec.channels
        start = line[0] * strides[3] + line[1] * strides[4]
        begin = column * columns.dilation
        head = number * self._run * channels
        if not self._channels_last:
            for channel in range(channels):
                at = head + channel * self._run + begin
                self._taps(tile, at, columns.stride, start + channel * strides[1])
            return
        if columns.stride == 1 and strides[5] == strides[1] * channels:
            count = columns.places * channels
            self._load(tile, head + begin * channels, count, start, strides[1])
            return
        for tap in range(columns.places):
            at = head + (begin + tap * columns.stride) * channels
            self._load(tile, at, channels, start + tap * strides[5], strides[1])

    def _taps(self, tile: Tile, at: int, apart: int, start: int) -> None:
        columns, step = self._spec.columns, self._spec.kernel.view.strides[5]
        if apart == 1:
            self._load(tile, at, columns.places, start, step)
            return
        for tap in range(columns.places):
            self._load(tile, at + tap * apart, 1, start + tap * step, step)

    def _load(self, tile: Tile, at: int, count: int, start: int, step: int) -> None:
        spec = self._spec
        pattern = [[step, count], [spec.kernel.view.strides[2], spec.outputs]]
        nisa.dma_copy(tile[at : at + count], window(self._kernel, spec.kernel, start, pattern))

    # -- products ------------------------------------------------------------------------------

    def _part(self, places: Places, first: int, count: int, weights: list[Tile]) -> None:
        """Some columns of some rows of the result."""
        spec, together = self._spec, self._together
        whole = -(-count // together) * together
        rows = spec.rows
        image = rows.tile(self._image, places, (first, whole), rows.lines, (0, 0, spec.channels))
        shape, steps = (count, spec.outputs), (spec.out.view.strides[5], spec.out.view.strides[2])
        tile, order = lying(places.count, shape, steps, spec.out.dtype)
        made = tile.permute([0, *(1 + order.index(dim) for dim in range(2))])
        at_once = max(1, _BANK_BYTES // (places.count * spec.dtype.itemsize))
        for begin in range(0, whole, at_once * together):
            some = min(at_once, (whole - begin) // together)
            seen = [self._seen(image, chunk, begin, some) for chunk in self._chunks]
            for features in self._features:
                self._multiply(made, seen, weights, begin, features)
        for stack in places.stacks:
            start = (
                stack.channel * spec.out.view.strides[1] + stack.plane * spec.out.view.strides[3]
            )
            width = spec.columns.window // rows.parts
            start += stack.row * spec.out.view.strides[4]
            start += (stack.part * width + first) * spec.out.view.strides[5]
            pattern = [
                [spec.out.view.strides[4], stack.count], *([steps[dim], shape[dim]] for dim in order)
            ]  # fmt: skip
            target = window(self._out, spec.out, start, pattern)
            nisa.dma_copy(target, tile[stack.at : stack.at + stack.count])

    def _seen(self, image: Tile, chunk: tuple[int, int], begin: int, count: int) -> Tile:
        """(what lines see, blocks of columns, rows) of blocks of columns in a row."""
        spec = self._spec
        rows, _, _, channels = image.shape
        shape = (chunk[1] * self._run * channels, count, rows)
        seen = nl.ndarray(shape, dtype=spec.dtype, buffer=nl.sbuf)
        bank = nl.ndarray(shape, dtype=spec.dtype, buffer=nl.psum) if spec.exact else seen
        for number in range(count):
            at = (begin + number * self._together) * spec.columns.dilation
            part = image[:, part_of(chunk), at : at + self._run]
            if not self._channels_last:
                part = part.permute([0, 1, 3, 2])
            if not spec.exact:
                part = _flat(part)
            turned_into(bank[:, number], part, exact=spec.exact)
        if spec.exact:
            nisa.tensor_copy(seen, bank)
        return seen

    def _multiply(
        self, made: Tile, seen: list[Tile], weights: list[Tile], begin: int,
        features: tuple[int, int],
    ) -> None:  # fmt: skip
        """The columns of the result that the blocks make, from a column on."""
        together = self._together
        _, blocks, rows = seen[0].shape
        at_once = _BANK // (together * features[1])
        for first in range(0, blocks, at_once):
            some = min(at_once, blocks - first)
            shape = (rows, some * together, features[1])
            total = nl.ndarray(shape, dtype=F32, buffer=nl.psum)
            for number in range(some):
                part = total[:, number * together : (number + 1) * together]
                for step, (data, band) in enumerate(zip(seen, weights, strict=True)):
                    moving = band[:, :, part_of(features)]
                    nisa.nc_matmul(part, data[:, first + number], moving, accumulate=step > 0)
            at = begin + first * together
            count = min(some * together, made.shape[1] - at)
            nisa.tensor_copy(made[:, at : at + count, part_of(features)], total[:, 0:count])


def _flat(part: Tile) -> Tile:
    """A copy (rows, elements), for engines that transpose squares."""
    made = nl.ndarray(part.shape, dtype=part.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(made, part)
    return made.reshape((part.shape[0], prod(part.shape[1:])))
