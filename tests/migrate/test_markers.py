"""Code that cannot be rewritten mechanically stays under a comment with a code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.migrate.checking import migrated

CASES = {
    "NKI-M001": "if a.shape[0] > 999:\n    tile = nl.exp(tile)",
    "NKI-M002": "nl.store(out, tile)\nnisa.dma_copy(dst=out, src=tile, dst_rmw_op=np.add)",
    "NKI-M003": "for s in (1, 2):\n    few = nl.load(a[nl.arange(64)[:, None], s * nl.arange(8)[None, :]])",
    "NKI-M004": "i = nl.arange(64)[:, None]\nj = nl.arange(64)[None, :]\n"
                "tile = nl.copy(tile, mask=j <= i)",
    "NKI-M005": "for f in (nl.exp, nl.square):\n    tile = f(tile)",
    "NKI-M006": "rows = nisa.iota(nl.arange(64)[:, None], dtype=nl.int32)\n"
                "tile = nl.load(a.reshape((1, 64, 64))[0, rows, nl.arange(64)[None, :]])",
    "NKI-M011": "if nl.program_id(0) == 0:\n    return out",
    "NKI-M007": "shape = (2, nl.par_dim(64), 64)\nblocks = nl.ndarray(shape, dtype=a.dtype)\n"
                "blocks[0] = nl.copy(tile)",
    "NKI-M008": "arguments = (tile,)\ntile = nl.exp(*arguments)",
    "NKI-M010": "for _ in [nl.copy(tile, mask=nl.arange(64)[:, None] < 60)]:\n    pass",
}  # fmt: skip


@pytest.mark.parametrize("code", CASES)
def test_marker(code: str, tmp_path: Path) -> None:
    lines = "\n".join(f"    {line}" for line in CASES[code].splitlines())
    body = (
        "@nki.jit\ndef kernel(a):\n"
        "    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
        f"    tile = nl.load(a)\n{lines}\n    nl.store(out, tile)\n    return out\n"
    )
    result = migrated(tmp_path, body, a=np.ones((64, 64), np.float32))
    codes = [marker.code for marker in result.markers]
    assert code in codes, (codes, result.text)
    marker = next(marker for marker in result.markers if marker.code == code)
    assert f"# MIGRATE {code}: " in result.text
    source = (tmp_path / "old_kernels.py").read_text().splitlines()
    assert source[marker.line - 1].strip() in result.text
    assert marker.what and marker.why and marker.how


def test_a_star_import(tmp_path: Path) -> None:
    header = "import neuronxcc.nki as nki\nfrom neuronxcc.nki.language import *\nimport neuronxcc.nki.language as nl\n"
    body = (
        "@nki.jit\ndef kernel(a):\n"
        "    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.load(a))\n    return out\n"
    )
    result = migrated(tmp_path, body, header=header, a=np.ones((64, 64), np.float32))
    assert [marker.code for marker in result.markers] == ["NKI-M009"]
