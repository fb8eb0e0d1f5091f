"""Shared fixtures of the tests of passes and commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel_calls.test_kernel_calls import (
    PATTERN,
    PLAIN_TEXT,
    difference,
    scaled_add,
    scaled_add_again,
    write_kernel,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the module, the pattern, and three kernels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NKI_HLO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "plain.hlo").write_text(PLAIN_TEXT)
    (tmp_path / "pattern.hlo").write_text(PATTERN)
    for func in (scaled_add, scaled_add_again, difference):
        write_kernel(tmp_path, func)
    return tmp_path
