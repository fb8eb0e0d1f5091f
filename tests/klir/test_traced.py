"""Kernels from the tracer: what the front end makes goes through files whole."""

from __future__ import annotations

import nki_lang
import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang import klir
from nki_lang.ir.text_parser import parse

SPEC = nki_lang.TensorSpec((256, 512), nl.float32)


def tiled(x):
    """Tiles, an activation with a scale, registers and a loop on the device."""
    out = nl.ndarray((256, 512), nl.float32, nl.shared_hbm)
    for step in nl.affine_range(2):
        rows = slice(step * 128, step * 128 + 128)
        tile = nl.load(x[rows, :])
        nisa.activation(dst=tile, op=nl.exp, data=tile, scale=0.1)
        nl.store(out[rows, :], tile)
    return out


def looped(x):
    """A loop that runs on the device, with its index in an address."""
    out = nl.ndarray((256, 512), nl.float32, nl.shared_hbm)
    tile = nl.ndarray((1, 512), nl.float32, nl.sbuf)
    for row in nl.dynamic_range(0, 256):
        source = x.ap([[512, 1], [1, 512]], scalar_offset=row)
        nisa.dma_copy(dst=tile, src=source)
        nisa.dma_copy(dst=out.ap([[512, 1], [1, 512]], scalar_offset=row), src=tile)
    return out


def split(x):
    """Each core allocates its own tiles, of different shapes under one name."""
    out = nl.ndarray((256, 512), nl.float32, nl.shared_hbm)
    core = nl.program_id(0)
    rows = slice(0, 128) if core == 0 else slice(128, 192)
    tile = nl.load(x[rows, :])
    nl.store(out[rows, :], tile)
    return out


def _through_files(kernel, tmp_path):
    path = tmp_path / "kernel.klir"
    klir.write(kernel, path)
    read = klir.read(path)
    assert klir.dumps(read) == klir.dumps(kernel)
    assert [inst.op for inst in read.instructions()] == [inst.op for inst in kernel.instructions()]
    assert [inst.operands for inst in read.instructions()] == [
        inst.operands for inst in kernel.instructions()
    ]
    assert parse(str(read)) == read
    positions = {inst.location.file for inst in read.instructions() if inst.location}
    assert positions == {"test_traced.py"}
    return read


def test_tiles(tmp_path):
    read = _through_files(nki_lang.trace(tiled, [SPEC], target="trn2"), tmp_path)
    assert read.target == "trn2"
    again = klir.loads(klir.dumps(read).klir, target="trn2")
    assert [inst.op for inst in again.instructions()] == [inst.op for inst in read.instructions()]


def test_a_loop_on_the_device(tmp_path):
    _through_files(nki_lang.trace(looped, [SPEC], target="trn2"), tmp_path)


def test_two_cores(tmp_path):
    read = _through_files(nki_lang.trace(split, [SPEC], target="trn2", grid=(2,)), tmp_path)
    assert read.lnc == 2
