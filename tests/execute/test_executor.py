"""Whole kernels run by the executor."""

import numpy as np
import pytest

from nki_lang.base.errors import NkiExecutionError
from nki_lang.execute import Memory, load
from nki_lang.execute.prepare import prepare
from nki_lang.ir import Access, Constant, ForLoop, Instruction, Register, WhileLoop
from tests.execute.handmade import full, instruction, kernel, part, tensor


def matmul_kernel(k, m, n, tile=(32, 32, 64)):
    tk, tm, tn = tile
    a, b = tensor("a", (k, m), buffer="hbm"), tensor("b", (k, n), buffer="hbm")
    c = tensor("c", (m, n), buffer="hbm")
    body = []
    for i in range(m // tm):
        for j in range(n // tn):
            psum = tensor(f"psum.{i}.{j}", (tm, tn), buffer="psum")
            for p in range(k // tk):
                a_tile, bt = (
                    tensor(f"at.{i}.{j}.{p}", (tk, tm)),
                    tensor(f"bt.{i}.{j}.{p}", (tk, tn)),
                )
                rows = slice(p * tk, (p + 1) * tk)
                body.append(
                    instruction(
                        "dma_copy", dst=full(a_tile), src=part(a, rows, slice(i * tm, i * tm + tm))
                    )
                )
                body.append(
                    instruction(
                        "dma_copy", dst=full(bt), src=part(b, rows, slice(j * tn, j * tn + tn))
                    )
                )
                body.append(
                    instruction(
                        "nc_matmul",
                        dst=full(psum),
                        stationary=full(a_tile),
                        moving=full(bt),
                        accumulate=None,
                    )
                )
            out = tensor(f"out.{i}.{j}", (tm, tn))
            body.append(instruction("tensor_copy", dst=full(out), src=full(psum)))
            body.append(
                instruction(
                    "dma_copy",
                    dst=part(c, slice(i * tm, i * tm + tm), slice(j * tn, j * tn + tn)),
                    src=full(out),
                )
            )
    return kernel([a, b], [c], body)


def test_tiled_matmul():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((64, 96), np.float32), rng.standard_normal((64, 128), np.float32)
    (c,) = load(matmul_kernel(64, 96, 128)).run([a, b])
    np.testing.assert_allclose(c, a.T.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)


def add_kernel():
    x, y = tensor("x", (4, 8), buffer="hbm"), tensor("y", (4, 8), buffer="hbm")
    a, b, c = tensor("a", (4, 8)), tensor("b", (4, 8)), tensor("c", (4, 8))
    z = tensor("z", (4, 8), buffer="hbm")
    return kernel([x, y], [z], [
        instruction("dma_copy", dst=full(a), src=full(x)),
        instruction("dma_copy", dst=full(b), src=full(y)),
        instruction("tensor_tensor", dst=full(c), data1=full(a), data2=full(b), op="add"),
        instruction("dma_copy", dst=full(z), src=full(c)),
    ])  # fmt: skip


def test_runs_again_with_other_arrays_and_given_outputs():
    loaded = load(add_kernel())
    x = np.ones((4, 8), np.float32)
    (first,) = loaded.run([x, x])
    output = np.zeros((4, 8), np.float32)
    (second,) = loaded.run([x * 2, x], [output])
    assert (first == 2).all()
    assert (second == 3).all()
    assert np.shares_memory(second, output)


def test_wrong_arguments_are_named():
    loaded = load(add_kernel())
    x = np.ones((4, 8), np.float32)
    with pytest.raises(NkiExecutionError, match="takes 2 arrays, but 1"):
        loaded.run([x])
    with pytest.raises(NkiExecutionError, match=r"'y'.*\(4, 8\) float32.*\(8, 4\)"):
        loaded.run([x, x.reshape(8, 4)])
    with pytest.raises(NkiExecutionError, match="float64"):
        loaded.run([x, x.astype(np.float64)])


def test_inputs_that_are_written_are_copied():
    x = tensor("x", (2, 2), buffer="hbm")
    body = [instruction("memset", dst=part(x, slice(0, 1), slice(0, 2)), value=5)]
    array = np.zeros((2, 2), np.float32)
    (out,) = load(kernel([x], [x], body)).run([array])
    assert np.array_equal(out, [[5, 5], [0, 0]])
    assert (array == 0).all()


def test_constants_travel_with_the_kernel():
    eye = tensor("eye", (2, 2), buffer="hbm")
    z = tensor("z", (2, 2), buffer="hbm")
    body = [instruction("dma_copy", dst=full(z), src=full(eye))]
    constant_kernel = kernel([], [z], body, constants=(Constant(eye, np.eye(2, dtype=np.float32)),))
    assert np.array_equal(load(constant_kernel).run([])[0], np.eye(2))


def test_loops_and_registers():
    x, z = tensor("x", (6, 4), buffer="hbm"), tensor("z", (6, 4), buffer="hbm")
    tile, i, stop = tensor("t", (1, 4)), Register("i"), Register("stop")
    row = ((4, 1), (1, 4))
    loop = ForLoop(i, 1, stop, 2, [
        instruction("dma_copy", dst=full(tile), src=Access(x, 0, row, scalar_offset=i)),
        instruction("tensor_scalar", dst=full(tile), data=full(tile), op0="multiply", operand0=10.0),
        instruction("dma_copy", dst=Access(z, 0, row, scalar_offset=i), src=full(tile)),
    ])  # fmt: skip
    body = [
        instruction("memset", dst=full(z), value=0),
        instruction("register_alloc", dst=stop, x=5),
        instruction("register_alu", dst=stop, op="add", src0=stop, src1=1),
        loop,
    ]
    array = np.arange(24, dtype=np.float32).reshape(6, 4)
    (out,) = load(kernel([x], [z], body)).run([array])
    expected = np.zeros_like(array)
    expected[1::2] = array[1::2] * 10
    assert np.array_equal(out, expected)


def test_while_loop_on_data():
    x, z = tensor("x", (1, 1), "int32", "hbm"), tensor("z", (1, 1), "int32", "hbm")
    left, iterations = Register("left"), Register("turns")
    tile = tensor("t", (1, 1), "int32")
    body = [
        instruction("dma_copy", dst=full(tile), src=full(x)),
        instruction("register_load", dst=left, src=full(tile)),
        instruction("register_alloc", dst=iterations, x=None),
        WhileLoop(left, [
            instruction("register_alu", dst=iterations, op="add", src0=iterations, src1=3),
            instruction("register_alu", dst=left, op="subtract", src0=left, src1=1),
        ]),
        instruction("register_store", dst=full(tile), src=iterations),
        instruction("dma_copy", dst=full(z), src=full(tile)),
    ]  # fmt: skip
    loaded = load(kernel([x], [z], body))
    assert loaded.run([np.array([[4]], np.int32)])[0] == 12
    assert loaded.run([np.array([[0]], np.int32)])[0] == 0


def test_errors_carry_the_line():
    x = tensor("x", (6, 4), buffer="hbm")
    tile = tensor("t", (1, 4))
    body = [
        instruction("register_alloc", dst=Register("r"), x=6),
        instruction(
            "dma_copy",
            line=42,
            dst=full(tile),
            src=Access(x, 0, ((4, 1), (1, 4)), scalar_offset=Register("r")),
        ),
    ]
    with pytest.raises(NkiExecutionError, match=r"kernel.py:42.*NKI-OUT-OF-BOUNDS"):
        load(kernel([x], [], body)).run([np.zeros((6, 4), np.float32)])


@pytest.mark.filterwarnings("ignore:.*NKI-UNINITIALISED")
def test_shapes_that_do_not_fit_are_reported():
    body = [
        instruction(
            "tensor_tensor",
            line=3,
            dst=full(tensor("a", (2, 4))),
            data1=full(tensor("b", (2, 4))),
            data2=full(tensor("c", (2, 3))),
            op="add",
        )
    ]
    with pytest.raises(NkiExecutionError, match=r"kernel\.py:3.*tensor_tensor cannot be executed"):
        load(kernel([], [], body)).run([])


@pytest.mark.filterwarnings("ignore:.*NKI-UNINITIALISED")
def test_numbers_beyond_an_integer_are_reported():
    source, positions = tensor("a", (16, 4)), tensor("b", (16, 5), "int32")
    body = [
        instruction("memset", dst=full(source), value=1.0),
        instruction(
            "nonzero_with_count", line=4, dst=full(positions), src=full(source), padding_val=1 << 40
        ),
    ]
    with pytest.raises(NkiExecutionError, match=r"kernel\.py:4.*cannot be executed") as caught:
        load(kernel([], [], body)).run([])
    assert caught.value.code == "NKI-EXEC"


def test_unknown_instruction():
    with pytest.raises(NkiExecutionError, match="no instruction 'frobnicate'"):
        load(kernel([], [], [instruction("frobnicate")])).run([])


def test_skipped_scalar_offset_transfers_nothing():
    x, z = tensor("x", (4, 2), buffer="hbm"), tensor("z", (1, 2), buffer="hbm")
    row = Access(x, 0, ((2, 1), (1, 2)), scalar_offset=Register("r"))
    body = [
        instruction("memset", dst=full(z), value=7),
        instruction("register_alloc", dst=Register("r"), x=9),
        instruction("dma_copy", dst=full(z), src=row, oob_mode="skip"),
    ]
    (out,) = load(kernel([x], [z], body)).run([np.zeros((4, 2), np.float32)])
    assert (out == 7).all()


def test_skipped_rows_of_a_gather_keep_the_destination():
    x, i = tensor("x", (4, 2), buffer="hbm"), tensor("i", (3, 1), "int32")
    index, z = tensor("index", (3, 1), "int32", "hbm"), tensor("z", (3, 2), buffer="hbm")
    tile = tensor("t", (3, 2))
    body = [
        instruction("dma_copy", dst=full(i), src=full(index)),
        instruction("memset", dst=full(tile), value=-1),
        instruction(
            "dma_copy",
            dst=full(tile),
            src=Access(x, 0, ((2, 3), (1, 2)), vector_offset=full(i)),
            oob_mode="skip",
        ),
        instruction("dma_copy", dst=full(z), src=full(tile)),
    ]
    array = np.arange(8, dtype=np.float32).reshape(4, 2)
    (out,) = load(kernel([x, index], [z], body)).run([array, np.array([[2], [9], [0]], np.int32)])
    assert np.array_equal(out, [[4, 5], [-1, -1], [0, 1]])


def test_an_instruction_that_there_is_none_of():
    with pytest.raises(NkiExecutionError, match=r"NKI-NO-MEANING.*'frobnicate'"):
        prepare(Instruction("frobnicate", {}), Memory())
