"""KLIR and the textual form lose nothing."""

from __future__ import annotations

import copy

from hypothesis import HealthCheck, given, settings

from nki_lang import klir
from nki_lang.base.dtypes import dtype_of
from nki_lang.base.errors import NkiFileError
from nki_lang.ir.text import to_text
from nki_lang.ir.text_parser import parse
from nki_lang.ir.types import Access, MemoryRegion, Tensor
from nki_lang.klir.reach import check_reach
from tests.klir import kernels as made

_SETTINGS = settings(
    max_examples=50, deadline=None, database=None, report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)  # fmt: skip


def _spelled(kernel) -> str:
    """The text, in which 1, 1.0 and True are three different things; operands sorted."""
    ordered = copy.deepcopy(kernel)
    for instruction in ordered.instructions():
        instruction.operands = dict(sorted(instruction.operands.items()))
    return to_text(ordered)


def test_a_tile_without_dimensions_has_no_partition_to_leave() -> None:
    tile = Tensor("t", dtype_of("bfloat16"), (), MemoryRegion.sbuf)
    check_reach(Access(tile, 0, ((1, 1),)))


@_SETTINGS
@given(made.kernels())
def test_nothing_is_lost(kernel):
    text = to_text(kernel)
    parsed = parse(text)
    assert parsed == kernel
    assert to_text(parsed) == text
    written = klir.dumps(kernel)
    read = klir.loads(written.klir, written.companion, written.constants)
    assert read == kernel
    assert _spelled(read) == _spelled(kernel)
    assert klir.dumps(read) == written
    assert klir.dumps(parsed).klir == written.klir
    _read_as_plain_klir(written)


def _read_as_plain_klir(written) -> None:
    """Without the companion the bytes come again, or the reader says what it cannot read."""
    try:
        plain = klir.loads(written.klir, None, written.constants, target="trn2")
    except NkiFileError as error:
        assert error.code.startswith("NKI-FILE")
        return
    assert klir.dumps(plain).klir == written.klir
