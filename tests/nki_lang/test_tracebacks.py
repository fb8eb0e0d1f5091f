"""Which frames a kernel's errors show."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from nki_lang.base.errors import NkiValidationError


@nki.jit
def too_large(x: Any) -> Any:
    tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(tile, x)
    return x


@nki.jit
def users_error(x: Any) -> Any:
    raise KeyError("of the user's")


def simulated(x: Any) -> Any:
    return nki.simulate(too_large)(x)


def in_jax(x: Any) -> Any:
    return too_large(pytest.importorskip("jax.numpy").asarray(x))


CALLS = [too_large, simulated, in_jax, too_large.ir, too_large.lines]


def frames(call: Callable[..., Any], error: type[Exception]) -> list[str]:
    with pytest.raises(error) as caught:
        call(np.zeros((256, 4), np.float32))
    return [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: getattr(call, "__name__", "called"))
def test_only_the_users_frames_are_shown(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NKI_HLO_DEBUG", raising=False)
    assert set(frames(call, NkiValidationError)) == {__file__}


def test_an_error_of_the_users_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NKI_HLO_DEBUG", raising=False)
    assert set(frames(users_error, KeyError)) == {__file__}


def test_all_frames_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_HLO_DEBUG", "1")
    assert len(set(frames(too_large, NkiValidationError))) > 2


def test_a_bug_of_ours_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NKI_HLO_DEBUG", raising=False)

    def broken(*_: Any, **__: Any) -> None:
        raise IndexError

    broken.__code__ = broken.__code__.replace(co_filename=nki.jit.__code__.co_filename)
    monkeypatch.setattr("nki_lang.kernel.trace_kernel", broken)
    assert len(set(frames(too_large, IndexError))) > 1
