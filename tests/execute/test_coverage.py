"""The book of written bytes agrees with a plain map."""

import numpy as np
import pytest

from nki_lang.ir.coverage import Coverage, Piece


def plain(piece, nbytes):
    """Byte map of one window, element by element."""
    mask = np.zeros(nbytes, bool)
    for index in np.ndindex(*piece.shape):
        start = piece.offset + sum(i * s for i, s in zip(index, piece.strides, strict=True))
        mask[start : start + piece.size] = True
    return mask


def random_piece(rng, rows=6, columns=8, size=4):
    top, left = int(rng.integers(0, rows)), int(rng.integers(0, columns))
    shape = (int(rng.integers(1, rows - top + 1)), int(rng.integers(1, columns - left + 1)))
    return Piece(shape, (top * columns + left) * size, (columns * size, size), size)


@pytest.mark.parametrize("seed", range(60))
def test_random_writes(seed):
    rng = np.random.default_rng(seed)
    coverage, written = Coverage(192), np.zeros(192, bool)
    for _ in range(12):
        piece = random_piece(rng)
        if rng.random() < 0.5:
            coverage.add(piece)
            written |= plain(piece, 192)
        else:
            expected = plain(piece, 192)
            assert coverage.has(piece) == bool(written[expected].all())
            assert coverage.missing(piece).any() == (not written[expected].all())
        assert coverage.complete <= bool(written.all())
    assert np.array_equal(coverage.holes(), ~written)
    assert coverage.try_finish() in (False, bool(written.all()))


def test_tiles_that_make_a_whole_are_noticed():
    coverage = Coverage(4 * 64)
    for row in range(0, 4, 2):
        for column in range(0, 16, 8):
            coverage.add(Piece((2, 8), (row * 16 + column) * 4, (64, 4), 4))
    assert not coverage.complete
    assert coverage.try_finish()


def test_overlapping_tiles_do_not_pretend():
    coverage = Coverage(64)
    coverage.add(Piece((8,), 0, (4,), 4))
    coverage.add(Piece((8,), 4, (4,), 4))
    assert not coverage.try_finish()
    assert coverage.holes().sum() == 28


def test_broadcast_windows_count_once():
    assert Piece((4, 4), 0, (0, 4), 4).covers == 0
    assert Piece((4, 4), 0, (16, 4), 4).covers == 64
    assert Piece((4, 4), 48, (-16, 4), 4).covers == 64


def test_taint_and_forget():
    coverage = Coverage(32)
    full_piece = Piece((8,), 0, (4,), 4)
    coverage.add(full_piece)
    bad = np.arange(8) == 3
    coverage.taint(full_piece, bad)
    assert coverage.missing(full_piece).tolist() == bad.tolist()
    assert coverage.tainted(full_piece).tolist() == bad.tolist()
    coverage.forget(full_piece, np.arange(8) == 5)
    assert coverage.unwritten(full_piece).tolist() == (np.arange(8) == 5).tolist()
    coverage.add(full_piece)
    assert coverage.has(full_piece)
