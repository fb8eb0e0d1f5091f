"""Damaged files: one kind of error, always, and bounded memory."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace

import pytest

from nki_lang import klir
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.errors import NkiFileError
from nki_lang.ir import Access, KernelIR, Register
from nki_lang.klir import schema
from tests.klir import samples


def _reads_or_says_why(data, record=None, files=None):
    try:
        return klir.loads(data, record, files, target="trn2")
    except NkiFileError as error:
        assert error.code.startswith("NKI-FILE"), error.code
        assert error.message
        return None


def test_truncated_at_every_byte():
    written = klir.dumps(samples.everything())
    for size in range(len(written.klir)):
        with pytest.raises(NkiFileError, match="NKI-FILE-KLIR"):
            klir.loads(written.klir[:size], None, written.constants, target="trn2")


def _plain(data: bytes) -> bytes:
    """A file without its checksum, as others write it."""
    _, behind = schema.reader("KLRMetaData")(data, 7, schema.ReadState())
    return data[:7] + bytes.fromhex("d9eb0081634e4b49") + data[behind:]


@pytest.mark.parametrize("change", [0x01, 0x02, 0x20, 0x80, 0xFF])
def test_every_byte_changed_of_a_file_alone_is_noticed(change):
    data = bytearray(klir.dumps(samples.scale()).klir)
    klir.loads(bytes(data), target="trn2")
    for index in range(len(data)):
        data[index] ^= change
        with pytest.raises(NkiFileError):
            klir.loads(bytes(data), target="trn2")
        data[index] ^= change


def test_a_number_changed_in_a_file_alone():
    data = klir.dumps(samples.scale()).klir
    changed = data.replace(b"\x19\x02\x00", b"\x19\x02\x01")
    assert changed != data
    with pytest.raises(NkiFileError, match="NKI-FILE-CHECKSUM"):
        klir.loads(changed, target="trn2")


def test_a_file_without_a_checksum_is_read_and_written_as_it_is():
    for name in (b"NKI", b"KLR"):
        data = _plain(klir.dumps(samples.scale()).klir).replace(b"NKI", name, 1)
        kernel = klir.loads(data, target="trn2")
        written = klir.dumps(kernel)
        assert written.klir == data
        assert klir.loads(written.klir, written.companion) == kernel
    with pytest.raises(NkiFileError, match="NKI-FILE-CHECKSUM"):
        klir.loads(data.replace(b"KLR", b"NKJ", 1), target="trn2")


def test_every_byte_changed_without_the_companion():
    data = bytearray(_plain(klir.dumps(samples.scale()).klir))
    for index in range(len(data)):
        for change in (0x01, 0x20, 0x80, 0xFF):
            data[index] ^= change
            read = _reads_or_says_why(bytes(data))
            assert read is None or isinstance(read, KernelIR)
            data[index] ^= change


def test_every_byte_changed_with_the_companion_is_noticed():
    written = klir.dumps(samples.scale())
    data = bytearray(written.klir)
    for index in range(len(data)):
        data[index] ^= 0x04
        assert _reads_or_says_why(bytes(data), written.companion) is None
        data[index] ^= 0x04


def test_every_byte_of_the_companion_changed():
    written = klir.dumps(samples.everything())
    data = bytearray(written.companion)
    for index in range(len(data)):
        for change in (0x01, 0x10):
            data[index] ^= change
            _reads_or_says_why(written.klir, bytes(data), written.constants)
            data[index] ^= change


def test_the_companion_truncated_at_every_byte():
    written = klir.dumps(samples.everything())
    for size in range(len(written.companion) - 1):
        assert _reads_or_says_why(written.klir, written.companion[:size], written.constants) is None


def test_random_bytes():
    generator = random.Random(7)
    start = _plain(klir.dumps(samples.scale()).klir)[:19]
    for _ in range(2000):
        noise = generator.randbytes(generator.randrange(80))
        assert _reads_or_says_why(generator.choice((b"", start)) + noise) is None


def test_pieces_of_a_file_swapped():
    generator = random.Random(11)
    complete = klir.dumps(samples.everything())
    for _ in range(500):
        data = bytearray(_plain(complete.klir))
        size = generator.randrange(1, 40)
        source, target = (generator.randrange(19, len(data) - size) for _ in range(2))
        data[target : target + size] = data[source : source + size]
        _reads_or_says_why(bytes(data), None, complete.constants)


def test_announced_sizes_cost_nothing():
    head = _plain(klir.dumps(samples.scale()).klir)[:15]
    data = head + bytes.fromhex("d9ec0381d96c0087") + b"\x61k" + bytes.fromhex("9b0000000fffffffff")
    tracemalloc.start()
    assert _reads_or_says_why(data + b"\x00" * 100) is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


def test_the_place_of_the_damage_is_named():
    data = bytearray(klir.dumps(samples.scale()).klir)
    data[8] = 0x00
    with pytest.raises(NkiFileError, match="at byte 7: expected a KLRMetaData"):
        klir.loads(bytes(data))


def test_bytes_behind_the_kernel():
    data = klir.dumps(samples.scale()).klir + b"\x00"
    with pytest.raises(NkiFileError, match="1 bytes follow the kernel"):
        klir.loads(data)


def test_another_version():
    data = bytearray(klir.dumps(samples.scale()).klir)
    data[5] = 1
    with pytest.raises(NkiFileError, match=r"version 0\.1\.12"):
        klir.loads(bytes(data))


def _copy_from(access):
    body = [samples.copy(samples.whole(samples.TILE), access, 1)]
    return klir.dumps(KernelIR("k", "trn2", 1, (samples.A,), (), (body,))).klir


@pytest.mark.parametrize(
    ("offset", "pattern", "more"),
    [
        (0, ((512, 257), (1, 512)), {}),
        (512 * 256, ((1, 1),), {}),
        (3, ((-1, 5),), {}),
        (0, ((1, 1 << 41),), {"vector_offset": samples.whole(samples.TILE)}),
        (0, ((0, 1 << 30), (0, 1 << 30)), {}),
        (0, ((1, 1),), {"indirect_dim": 2}),
        (0, ((1, 1),), {"indirect_dim": -1}),
        (0, ((1, 1),) * 33, {}),
        (1 << 50, ((1, 1),), {"scalar_offset": Register("r")}),
        (256 * 512, ((1, 1),), {"dtype": BY_NAME["int32"]}),
        (0, ((1 << 62, 1),), {}),
        (0, ((1 << 62, 1), (1, 0)), {}),
    ],
)
def test_an_access_outside_its_tensor(offset, pattern, more):
    data = _copy_from(Access(samples.A, offset, pattern, **more))
    with pytest.raises(NkiFileError, match="NKI-FILE-ACCESS"):
        klir.loads(data, target="trn2")


def test_an_access_on_chip_without_partitions():
    body = [samples.copy(samples.whole(samples.A), Access(samples.TILE, 0, ()), 1)]
    data = klir.dumps(KernelIR("k", "trn2", 1, (samples.A,), (), (body,))).klir
    with pytest.raises(NkiFileError, match="no dimension of partitions"):
        klir.loads(data, target="trn2")


@pytest.mark.parametrize("swapped", [False, True])
def test_a_tensor_of_a_core_that_is_called_as_a_shared_one(swapped):
    tile = replace(samples.TILE, name="a", shape=(1, 4))
    body = [
        samples.copy(samples.whole(samples.TILE), samples.whole(samples.A), 1),
        samples.copy(samples.whole(tile), samples.whole(tile), 2),
    ]
    bodies = (body[::-1] if swapped else body,)
    data = klir.dumps(KernelIR("k", "trn2", 1, (samples.A,), (), bodies)).klir
    with pytest.raises(NkiFileError, match="two different tensors called 'a'"):
        klir.loads(data, target="trn2")
