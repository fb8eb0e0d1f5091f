"""The eager interpreter: values are seen, arguments change in place, cores take turns."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiExecutionError, NkiValidationError
from nki_lang.kernel import jit, simulate


@jit
def add_kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=out, src=x)
    return out


A = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_numpy_in_numpy_out():
    assert np.array_equal(simulate(add_kernel)(A, A), A * 2)
    bf16 = A.astype(ml_dtypes.bfloat16)
    assert simulate(add_kernel)(bf16, bf16).dtype == ml_dtypes.bfloat16


@pytest.mark.torch_xla
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_torch_in_torch_out(dtype):
    x = torch.arange(12).reshape(3, 4).to(dtype)
    out = simulate(add_kernel)(x, x)
    assert out.dtype == dtype
    assert torch.equal(out, x * 2)


@pytest.mark.jax
def test_jax_in_jax_out():
    out = simulate(add_kernel)(jnp.asarray(A), jnp.asarray(A))
    assert isinstance(out, jnp.ndarray)
    assert np.array_equal(out, A * 2)


def test_values_are_seen_while_the_kernel_runs(capsys):
    @jit
    def look(a):
        t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=a)
        print(t)
        r = nisa.register_alloc(3)
        print(r + 4)
        nl.device_print("tile", t)
        return a

    simulate(look)(A)
    text = capsys.readouterr().out
    assert "[ 4.  5.  6.  7.]" in text
    assert "=7)" in text
    assert "tile" in text


def in_place(a):
    t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=t, value=5)
    nisa.dma_copy(dst=a, src=t)


def test_arguments_change_in_place():
    a = np.zeros((3, 4), np.float32)
    assert simulate(in_place)(a) is None
    assert (a == 5).all()
    strided = np.zeros((4, 3), np.float32).T
    simulate(in_place)(strided)
    assert (strided == 5).all()
    tensor = torch.zeros(3, 4, dtype=torch.bfloat16)
    simulate(in_place)(tensor)
    assert (tensor == 5).all()


def test_loops_registers_and_while():
    @jit
    def loops(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for i in nl.dynamic_range(0, a.shape[0]):
            t = nl.ndarray((1, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=a[nl.ds(i, 1), :])
            nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=3.0)
            nisa.dma_copy(dst=out[nl.ds(i, 1), :], src=t)
        return out

    assert np.array_equal(simulate(loops)(A), A * 3)
    assert np.array_equal(loops(A), A * 3)


def test_product_accumulates_as_documented():
    @jit
    def twice(a, b):
        out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
        x = nl.load(a)
        y = nl.load(b)
        total = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
        for _ in range(2):
            nisa.nc_matmul(dst=total, stationary=x, moving=y)
        result = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out, src=result)
        return out

    expected = 2 * A.T @ A
    np.testing.assert_allclose(simulate(twice)(A, A), expected)
    np.testing.assert_allclose(twice(A, A), expected)


def test_accumulation_starts_anew_with_each_tensor_at_an_address():
    @jit
    def kernel(a):
        out = nl.ndarray((2, 4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        x = nl.load(a)
        for iteration in range(2):
            total = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.psum, address=(0, 0))
            for _ in range(iteration + 1):
                nisa.nc_matmul(dst=total, stationary=x, moving=x)
            result = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total)
            nisa.dma_copy(dst=out[iteration], src=result)
        return out

    expected = np.stack([A.T @ A, 2 * A.T @ A])
    np.testing.assert_allclose(simulate(kernel)(A), expected)
    np.testing.assert_allclose(kernel(A), expected)


def test_faults_name_the_users_line():
    @jit
    def uninitialised(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=out, src=t)
        return out

    with pytest.raises(NkiExecutionError, match="NKI-UNINITIALISED") as caught:
        simulate(uninitialised)(A)
    assert caught.value.location.file == __file__
    assert caught.value.location.function == "uninitialised"


def test_validation_happens_as_in_a_trace():
    @jit
    def wide(a):
        return nl.ndarray((256, 4), dtype=nl.float32, buffer=nl.sbuf)

    with pytest.raises(NkiValidationError):
        simulate(wide)(A)


@jit
def halves(a):
    """Each core writes one half, both read all of it after the barrier."""
    shared = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    rows = a.shape[0] // 2
    t = nl.ndarray((rows, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=a[core * rows : (core + 1) * rows, :])
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=float(core + 1))
    nisa.dma_copy(dst=shared[core * rows : (core + 1) * rows, :], src=t)
    nisa.core_barrier(data=shared, cores=(0, 1))
    gathered = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=gathered, src=shared)
    nisa.dma_copy(dst=out[core], src=gathered)
    return out


def test_two_cores_meet_at_a_barrier():
    a = np.zeros((4, 8), np.float32)
    expected = np.repeat([1.0, 2.0], 2)[:, None] * np.ones((4, 8))
    for run in (simulate(halves[2]), halves[2]):
        assert np.array_equal(run(a), np.stack([expected, expected]))


@jit
def swap(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    sent = nl.ndarray((1, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    received = nl.ndarray((1, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=sent, src=a[core : core + 1, :])
    nisa.sendrecv(src=sent, dst=received, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.dma_copy(dst=out[core : core + 1, :], src=received)
    return out


def test_two_cores_exchange_tiles():
    a = np.arange(8, dtype=np.float32).reshape(2, 4)
    for run in (simulate(swap[2]), swap[2]):
        assert np.array_equal(run(a), a[::-1])


def test_a_missing_barrier_is_a_deadlock_report_and_no_hang():
    @jit
    def stuck(a):
        if nl.program_id(0) == 0:
            nisa.core_barrier(data=a, cores=(0, 1))
        return a

    with pytest.raises(NkiExecutionError) as caught:
        simulate(stuck[2])(A.copy())
    assert caught.value.code == "NKI-DEADLOCK"
    assert "core 0 waits in core_barrier for core 1" in caught.value.message
    assert "core 1 has ended" in caught.value.message
    assert caught.value.location.function == "stuck"


def test_a_failure_on_one_core_is_what_is_reported():
    @jit
    def broken(a):
        if nl.program_id(0) == 1:
            raise RuntimeError("core one fails")
        nisa.core_barrier(data=a, cores=(0, 1))
        return a

    with pytest.raises(RuntimeError, match="core one fails"):
        simulate(broken[2])(A.copy())


def test_precise_floats_can_be_switched_off(monkeypatch):
    @jit
    def rounding(a):
        out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        small = nl.ndarray(a.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
        wide = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=small, src=a)
        nisa.tensor_copy(dst=wide, src=small)
        nisa.dma_copy(dst=out, src=wide)
        return out

    a = np.full((2, 3), 1 / 3, np.float32)
    rounded = a.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(simulate(rounding)(a), rounded)
    assert np.array_equal(rounding(a), rounded)
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    assert np.array_equal(simulate(rounding)(a), a)
    again = jit(rounding.func)
    assert np.array_equal(again(a), a)


def test_small_results_keep_their_type_when_precise_floats_are_off(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    bf16 = A.astype(ml_dtypes.bfloat16)
    for run in (simulate(add_kernel), add_kernel):
        out = run(bf16, bf16)
        assert out.dtype == ml_dtypes.bfloat16
        assert np.array_equal(out, bf16 * 2)


def test_memory_of_dead_tiles_is_used_again():
    @jit
    def many(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for _ in range(50):
            x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x, src=a)
            nisa.dma_copy(dst=out, src=x)
        return out

    from nki_lang.execute.memory import Memory

    pools = []
    original = Memory._recycled

    def watch(self, tensor):
        pools.append(sum(len(pool) for pool in self._pool.values()))
        return original(self, tensor)

    Memory._recycled = watch
    try:
        assert np.array_equal(simulate(many)(A), A)
    finally:
        Memory._recycled = original
    assert max(pools) <= 2
    assert sum(1 for size in pools if size == 0) <= 3
