"""From backend_config to a kernel that runs, and everything that can be wrong with the file."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlo_tools.errors import HloError, HloFileError, HloVerifyError
from hlo_tools.frameworks.numpy_kernel import NumpyKernel
from hlo_tools.frameworks.plan import CallPlan
from hlo_tools.kernels import calls as kernels
from hlo_tools.kernels.backend_config import decode, encode
from hlo_tools.kernels.cache import _digest, _sweep, cache_folder
from nki_lang import klir
from tests.frameworks import sample_kernels


@pytest.fixture
def plan() -> CallPlan:
    tile = np.zeros((128, 512), np.float32)
    return NumpyKernel(func=sample_kernels.add).plan(tile, tile)


ONES = np.ones((128, 512), np.float32)


def test_a_kernel_is_loaded_once(plan: CallPlan) -> None:
    call = kernels.resolve(plan.backend_config)
    assert kernels.resolve(plan.backend_config.encode()) is call
    np.testing.assert_array_equal(call.run([ONES, ONES])[0], 2 * ONES)


def test_a_touched_file_with_the_same_content_is_the_same_kernel(plan: CallPlan) -> None:
    call = kernels.resolve(plan.backend_config)
    content = plan.binary.read_bytes()
    plan.binary.unlink()
    plan.binary.write_bytes(content)
    assert kernels.resolve(plan.backend_config) is call


def test_results_can_be_written_into_given_arrays(plan: CallPlan) -> None:
    result = np.empty_like(ONES)
    kernels.resolve(plan.backend_config).run([ONES, ONES], [result])
    np.testing.assert_array_equal(result, 2 * ONES)


def test_a_relative_path_starts_from_the_root(plan: CallPlan, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(plan.binary.parent, bundle)
    config = encode(replace(decode(plan.backend_config), binary=plan.binary.name))
    (result,) = kernels.resolve(config, bundle).run([ONES, ONES])
    np.testing.assert_array_equal(result, 2 * ONES)
    with pytest.raises(HloFileError) as caught:
        kernels.resolve(config)
    assert caught.value.code == "HLO-KERNEL-PATH"


def test_a_relative_path_stays_in_the_root(plan: CallPlan, tmp_path: Path) -> None:
    config = encode(replace(decode(plan.backend_config), binary="../secret.klir"))
    with pytest.raises(HloFileError, match="leaves the module's folder"):
        kernels.resolve(config, tmp_path)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (truncate, "HLO-KERNEL-DAMAGED"),
        (flip, "HLO-KERNEL-DAMAGED"),
        (empty, "HLO-KERNEL-DAMAGED"),
        (Path.unlink, "HLO-KERNEL-MISSING"),
        (replace_by_folder, "HLO-KERNEL-MISSING"),
    ],
)
def test_a_spoiled_file_is_refused(
    plan: CallPlan, spoil: Callable[[Path], None], code: str
) -> None:
    kernels.resolve(plan.backend_config)
    spoil(plan.binary)
    with pytest.raises(HloFileError) as caught:
        kernels.resolve(plan.backend_config)
    assert caught.value.code == code
    assert str(plan.binary) in str(caught.value)


def test_another_kernel_under_the_same_name_is_refused(plan: CallPlan) -> None:
    conflicting = NumpyKernel(func=sample_kernels.sum_and_double).plan(ONES, ONES)
    for file in conflicting.binary.parent.glob("*.klir*"):
        name = plan.binary.name + file.name.removeprefix(conflicting.binary.name)
        shutil.copy(file, plan.binary.with_name(name))
    with pytest.raises(HloFileError, match="the file contains another kernel"):
        kernels.resolve(plan.backend_config)


def test_operands_and_results_must_fit(plan: CallPlan) -> None:
    call = kernels.resolve(plan.backend_config)
    with pytest.raises(HloVerifyError, match=r"has 2 operands \(a_input, b_input\), the call 1"):
        call.run([ONES])
    with pytest.raises(HloVerifyError, match=r"operand b_input as float32\[128, 512\]") as caught:
        call.run([ONES, ONES[:64]])
    assert caught.value.code == "HLO-KERNEL-OPERAND"
    with pytest.raises(HloVerifyError, match="the call as float64"):
        call.run([ONES.astype(np.float64), ONES])
    with pytest.raises(HloVerifyError) as caught:
        call.run([ONES, ONES], [np.empty((128, 511), np.float32)])
    assert caught.value.code == "HLO-KERNEL-RESULT"


def test_a_configuration_that_is_none() -> None:
    for text in ("", "not base64!", "bm90IGpzb24="):
        with pytest.raises(HloError) as caught:
            kernels.resolve(text)
        assert caught.value.code == "HLO-CONFIG"


def test_threads_run_one_kernel_at_once(plan: CallPlan) -> None:
    call = kernels.resolve(plan.backend_config)
    wrong: list[int] = []

    def work(number: int) -> None:
        array = ONES * number
        for _ in range(20):
            if not np.array_equal(call.run([array, ONES])[0], array + ONES):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_kernel_folder_is_complete_and_named_by_its_content(plan: CallPlan) -> None:
    folder = plan.binary.parent
    assert folder.parent == cache_folder()
    assert sorted(path.name for path in cache_folder().iterdir()) == [folder.name]
    flip(plan.binary)
    NumpyKernel(func=sample_kernels.add, enable_cache=False).plan(ONES, ONES)
    kernels.clear_cache()
    np.testing.assert_array_equal(
        kernels.resolve(plan.backend_config).run([ONES, ONES])[0], 2 * ONES
    )
    assert sorted(path.name for path in cache_folder().iterdir()) == [folder.name]


def test_many_writers_of_one_kernel() -> None:
    plans: list[CallPlan] = []

    def write() -> None:
        kernel = NumpyKernel(func=sample_kernels.add, enable_cache=False)
        plans.extend(kernel.plan(ONES, ONES) for _ in range(5))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(plans) == 20
    assert len({plan.backend_config for plan in plans}) == 1
    assert [path.name for path in cache_folder().iterdir()] == [plans[0].binary.parent.name]


KILLED = """
    import itertools, os, numpy as np, sample_kernels
    from hlo_tools.frameworks.numpy_kernel import NumpyKernel
    tile = np.zeros((128, 512), np.float32)
    print("ready", flush=True)
    for number in itertools.count(int(os.environ["FIRST"])):
        NumpyKernel(func=sample_kernels.scaled).plan(tile, float(number))
"""


def test_a_killed_writer_leaves_whole_kernels_only(start_script: Any) -> None:
    for moment in range(6):
        child = start_script(KILLED, FIRST=str(1000 * moment))
        assert child.stdout.readline() == "ready\n"
        written = len(list(cache_folder().glob("[0-9a-f]*")))
        while len(list(cache_folder().glob("[0-9a-f]*"))) < written + moment:
            assert child.poll() is None
        child.kill()
        child.communicate()
        for path in cache_folder().glob("[0-9a-f]*/*.klir"):
            klir.read(path)
            assert _digest(path.parent).startswith(path.parent.name)


def test_leftovers_of_killed_writers_are_swept(plan: CallPlan) -> None:
    for name, age in ((".new-old", 100_000), (".new-young", 0)):
        leftover = cache_folder() / name
        leftover.mkdir()
        moment = leftover.stat().st_mtime - age
        os.utime(leftover, (moment, moment))
    _sweep.cache_clear()
    NumpyKernel(func=sample_kernels.sum_and_double).plan(ONES, ONES)
    assert [path.name for path in cache_folder().glob(".new-*")] == [".new-young"]


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_HLO_CACHE", "/a/b")
    assert cache_folder() == Path("/a/b/kernels")
    monkeypatch.delenv("NKI_HLO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert cache_folder() == Path("/c/nki-hlo/kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative is ignored")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/nki-hlo/kernels")


def test_a_cache_that_can_only_be_read_serves_what_it_has(
    plan: CallPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkdtemp

    def refuse(suffix: Any = None, prefix: Any = None, dir: Any = None) -> str:
        if dir is not None and cache_folder() in (Path(dir), *Path(dir).parents):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(dir))
        return make(suffix, prefix, dir)

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    kernel = NumpyKernel(func=sample_kernels.add, enable_cache=False)
    assert kernel.plan(ONES, ONES).binary == plan.binary
    with pytest.raises(HloFileError, match=r"HLO-CACHE-WRITE.*Read-only file system"):
        NumpyKernel(func=sample_kernels.sum_and_double).plan(ONES, ONES)
    flip(plan.binary)
    with pytest.raises(HloFileError, match="HLO-CACHE-WRITE"):
        kernel.plan(ONES, ONES)
