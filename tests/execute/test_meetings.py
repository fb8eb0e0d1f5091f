"""Cores that wait for each other: a core is named that the kernel does not run on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler import compile_kernel
from neff.container import write
from neff.errors import NeffRuntimeError
from neff.runtime import load as load_neff
from nki_lang import jit
from nki_lang.base.errors import NkiError
from nki_lang.execute import load, run_ranks
from nki_lang.ir import KernelIR

X = np.arange(32, dtype=np.float32).reshape(4, 8)


def meeting(x: Any) -> Any:
    out = nl.ndarray((2, *x.shape), x.dtype, nl.shared_hbm)
    core = nl.program_id(0)
    tile, received = nl.load(x), nl.ndarray(x.shape, x.dtype, nl.sbuf)
    if nl.num_programs(0) == 2:
        nisa.sendrecv(tile, received, 1 - core, 1 - core, 0)
        nisa.core_barrier(out, (0, 1))
        tile = received
    nl.store(out[core], tile)
    return out


def changed(op: str, **operands: Any) -> KernelIR:
    """The kernel on two cores with other operands in one instruction of its first core."""
    kernel = jit(meeting)[2].trace((X,), target="trn2")
    first = tuple(
        replace(inst, operands=inst.operands | operands) if inst.op == op else inst
        for inst in kernel.bodies[0]
    )
    return replace(kernel, bodies=(first, *kernel.bodies[1:]))


WRONG = [
    ("core_barrier", {"cores": (16, 1)}),
    ("core_barrier", {"cores": (0, 2)}),
    ("core_barrier", {"cores": (-1, 0)}),
    ("sendrecv", {"send_to_rank": 2}),
    ("sendrecv", {"recv_from_rank": -1}),
]


@pytest.mark.parametrize(("op", "operands"), WRONG)
def test_a_core_that_is_not_there(op: str, operands: dict[str, Any], tmp_path: Path) -> None:
    kernel = changed(op, **operands)

    def by_neff() -> None:
        write(compile_kernel(kernel), tmp_path / "k.neff")
        load_neff(tmp_path / "k.neff").run({"x": X})

    for run in (lambda: load(kernel).run([X]), lambda: run_ranks(kernel, [[X], [X]]), by_neff):
        with pytest.raises((NkiError, NeffRuntimeError), match="the kernel runs on 2") as caught:
            run()
        assert caught.value.code in ("NKI-CORES", "NEFF-EXEC-CORES")


def test_ranks_of_one_core_meet_nobody() -> None:
    """A kernel on one core passes its barriers, alone and as one of several ranks."""

    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile, received = nl.load(x), nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.sendrecv(tile, received, 1, 1, 0)
        nisa.core_barrier(out, (0, 1))
        nl.store(out, received)
        return out

    traced = jit(kernel).trace((X,), target="trn2")
    (alone,) = load(traced).run([X])
    np.testing.assert_array_equal(alone, X)
    for (result,), expected in zip(run_ranks(traced, [[X], [X + 1]]), (X, X + 1), strict=True):
        np.testing.assert_array_equal(result, expected)
