"""Fixtures of the tests of NEFFs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from neff.cli import main


@pytest.fixture
def neff(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command of ``nki-neff``; exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run
