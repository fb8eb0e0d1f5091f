"""Files made elsewhere. Their bytes are put together here by hand, from the public description of
the format alone: tag numbers, constructor ordinals and field orders are written out once more."""

from __future__ import annotations

import hashlib
import struct

import pytest

from nki_lang import klir
from nki_lang.base.errors import NkiFileError
from nki_lang.ir import Access, Engine, ForLoop, NoReorder, Register, WhileLoop
from nki_lang.ir.text import full_pattern, to_text

NONE = bytes.fromhex("d9ff0080")


def some(value: bytes) -> bytes:
    return bytes.fromhex("d9ff0181") + value


def num(value: int) -> bytes:
    major, argument = (0x20, -1 - value) if value < 0 else (0, value)
    for short, size, limit in (
        (24, 1, 1 << 8),
        (25, 2, 1 << 16),
        (26, 4, 1 << 32),
        (27, 8, 1 << 64),
    ):
        if argument < 24:
            return bytes([major | argument])
        if argument < limit:
            return bytes([major | short]) + argument.to_bytes(size, "big")
    raise AssertionError


def text(value: str) -> bytes:
    data = value.encode()
    head = num(len(data))
    return bytes([head[0] | 0x60]) + head[1:] + data


def array(*parts: bytes) -> bytes:
    head = num(len(parts))
    return bytes([head[0] | 0x80]) + head[1:] + b"".join(parts)


def made(tag: int, ordinal: int, *fields: bytes, proofs: int = 0) -> bytes:
    return bytes([0xD9, tag, ordinal, 0x80 | (len(fields) + proofs)]) + b"".join(fields)


def no(value: bool) -> bytes:
    return b"\xf5" if value else b"\xf4"


F32, I32 = made(111, 5), made(111, 10)
HBM, SBUF = made(110, 0), made(110, 1)


def tensor(name, memory, parts, free, dtype=F32, rotation=True, shared=False, offsets=(NONE, NONE)):
    count = 1
    for extent in free:
        count *= extent
    shape = made(112, 0, num(parts), array(*map(num, free)))
    address = made(113, 0, text(name), memory, num(parts), num(count * 4), *offsets, no(shared))
    return made(114, 0, text(name), dtype, shape, address, num(count), no(rotation), proofs=2)


def bir(of, offset, pairs, scalar=NONE, vector=NONE, dimension=0, dtype=NONE):
    pattern = array(*(made(119, 0, num(step), num(count), num(0)) for step, count in pairs))
    inner = made(124, 0, of, num(offset), pattern, scalar, vector, num(dimension), dtype)
    return made(125, 3, inner)


def ref(access: bytes) -> bytes:
    return made(128, 0, access)


def position(line: int, column=0, end=NONE, file="kernel.py") -> bytes:
    return made(100, 0, num(line), num(column), end, NONE, some(text(file)))


def statement(operator: bytes, name: str | None, place=None) -> bytes:
    return made(103, 0, operator, NONE if name is None else some(text(name)), place or position(3))


def block(label: str, *statements: bytes, fixed=False) -> bytes:
    return made(104, 0, text(label), no(fixed), array(*statements))


def branch(op: int, first: str, second: str, yes: str, no: str, name="jmp.1") -> bytes:
    inner = made(193, 0, text(first), text(second), num(0), made(189, op), text(yes), text(no))
    return statement(made(218, 46, inner), name)


def jump(label: str) -> bytes:
    return branch(0, "", "", label, "", f"jmp.{label}")


def move(register: str, value: int, name: str | None = None) -> bytes:
    return statement(
        made(218, 45, made(192, 0, text(register), num(value))), name or f"move.{register}"
    )


def add_to(register: str, value: int) -> bytes:
    inner = made(194, 0, text(register), text(register), num(value), made(135, 1))
    return statement(made(218, 47, inner), "brnz.9")


A = tensor("a", HBM, 256, [512])
OUT = tensor("out.3", HBM, 256, [512])
TILE = tensor("tensor0", SBUF, 128, [512])
TILE_PATTERN = ((512, 128), (1, 512))


def dma(
    dst: bytes, src: bytes, name: str = "inst.5", unique=False, place=None, descriptors=0
) -> bytes:
    fields = (
        ref(dst),
        ref(src),
        made(140, 0),
        made(141, 1),
        num(descriptors),
        no(unique),
        NONE,
        made(130, 0),
    )
    return statement(made(218, 11, made(153, 0, *fields)), name, place)


def tensor_tensor(name: str, op: int = 24, dtype: bytes | None = None) -> bytes:
    tile = ref(bir(TILE, 0, TILE_PATTERN))
    fields = (tile, tile, tile, made(135, op), dtype or some(F32), made(130, 3))
    return statement(made(218, 34, made(182, 0, *fields)), name)


def header(name: str = "NKI", patch: int = 12) -> bytes:
    return bytes.fromhex("d9d9f783") + num(0) + num(0) + num(patch) + made(235, 0, text(name))


def lnc(*bodies: bytes, constants=(), shared=(), edges=()) -> bytes:
    inner = made(
        108, 0, text("kernel"), array(A), array(OUT), array(*bodies), array(*constants),
        array(*shared), array(*edges),
    )  # fmt: skip
    return header() + made(236, 3, inner)


def check(data: bytes):
    """Reads a file; its bytes come again, also through a companion and through the text."""
    kernel = klir.loads(data, target="trn2")
    written = klir.dumps(kernel)
    assert written.klir == data
    again = klir.loads(written.klir, written.companion, written.constants)
    assert again == kernel
    assert klir.dumps(again).klir == data
    assert to_text(again)
    return kernel


def test_a_plain_kernel():
    body = array(
        block(
            "main.1",
            dma(bir(TILE, 0, TILE_PATTERN), bir(A, 0, TILE_PATTERN)),
            tensor_tensor("inst.6"),
        )
    )
    kernel = check(lnc(body))
    copy, multiply = kernel.bodies[0]
    assert kernel.name == "kernel"
    assert kernel.target == "trn2"
    assert copy.op == "dma_copy"
    assert copy.name == "inst.5"
    assert copy.operands["src"] == Access(kernel.inputs[0], 0, TILE_PATTERN)
    assert str(copy.location) == "kernel.py:3"
    assert multiply.operands["op"] == "multiply"
    assert multiply.engine is Engine.vector


def test_our_bytes_are_these():
    """The file of a plain kernel equals one that is assembled by hand."""
    body = array(block("main.1", dma(bir(TILE, 0, TILE_PATTERN), bir(A, 0, TILE_PATTERN))))
    kernel = klir.loads(lnc(body), target="trn2")
    kernel.metadata.clear()
    data = klir.dumps(kernel).klir
    assert data[:7] == lnc(body)[:7] and data[49:] == lnc(body)[15:]
    digest = hashlib.sha256(data[:7] + data[49:]).hexdigest()[:32]
    assert data[7:49] == bytes.fromhex("d9eb00817824") + b"NKI " + digest.encode()


def test_what_our_ir_cannot_say_is_kept():
    index = position(4, 8, some(num(5)))
    rotated = tensor("tensor0", SBUF, 128, [512], rotation=False, shared=True)
    body = array(
        block(
            "main.1",
            dma(bir(rotated, 0, TILE_PATTERN), bir(A, 0, TILE_PATTERN), unique=True, place=index),
        )
    )
    kernel = check(lnc(body))
    assert "original" in kernel.metadata["klir"]
    kernel.bodies[0][0].name = "changed"
    assert b"changed" in klir.dumps(kernel).klir


def test_what_our_ir_has_no_form_for_is_refused():
    body = array(
        block("main.1", dma(bir(TILE, 0, TILE_PATTERN), bir(A, 0, TILE_PATTERN), descriptors=99))
    )
    with pytest.raises(NkiFileError, match="NKI-FILE-UNSUPPORTED"):
        klir.loads(lnc(body), target="trn2")


def test_simple_and_basic_accesses():
    simple = made(125, 0, TILE)
    cut = made(115, 0, num(0), num(256), num(2), proofs=1)
    basic = made(125, 1, made(118, 0, A, array(made(117, 1, cut), made(117, 0, num(7))), proofs=1))
    kernel = check(lnc(array(block("main.1", dma(simple, basic)))))
    operands = kernel.bodies[0][0].operands
    assert operands["dst"].pattern == full_pattern((128, 512))
    assert operands["src"] == Access(kernel.inputs[0], 7, ((1024, 128), (1, 1)))


def test_accesses_with_partitions_apart():
    pairs = array(made(119, 0, num(2), num(16), num(0)))
    inner = made(120, 0, TILE, num(64), pairs, num(32), num(8), array())
    kernel = check(lnc(array(block("main.1", dma(made(125, 2, inner), bir(A, 0, ((1, 1),)))))))
    assert kernel.bodies[0][0].operands["dst"] == Access(
        kernel.bodies[0][0].operands["dst"].tensor, 32 * 512 + 2, ((512, 64), (2, 16))
    )


def loop(test=7, step=1, init=()) -> bytes:
    dynamic = bir(A, 0, TILE_PATTERN, some(made(123, 0, text("reg.1"))))
    return array(
        block("main.1", dma(bir(TILE, 0, TILE_PATTERN), bir(A, 0, TILE_PATTERN), "inst.1"), jump("label.2")),
        block("label.2", *init, jump("label.3")),
        block("label.3", branch(test, "reg.1", "reg.2", "body.4", "exit.5", "brlt.1")),
        block(
            "body.4", dma(bir(TILE, 0, TILE_PATTERN), dynamic), add_to("reg.1", step),
            branch(test, "reg.1", "reg.2", "body.4", "exit.5", "brlt.2"),
        ),
        block("exit.5", tensor_tensor("inst.9")),
    )  # fmt: skip


def test_a_counted_loop():
    kernel = check(lnc(loop(init=(move("reg.1", 0), move("reg.2", 4)))))
    copy, outer, multiply = kernel.bodies[0]
    assert (copy.op, multiply.op) == ("dma_copy", "tensor_tensor")
    assert isinstance(outer, ForLoop)
    assert (outer.register, outer.start, outer.stop, outer.step) == (Register("reg.1"), 0, 4, 1)
    assert outer.body[0].operands["src"].scalar_offset == Register("reg.1")


def test_a_loop_over_registers_set_before():
    kernel = check(lnc(loop(init=())))
    counted_loop = kernel.bodies[0][1]
    assert (counted_loop.start, counted_loop.stop) == (Register("reg.1"), Register("reg.2"))


def test_a_loop_to_a_register():
    kernel = check(lnc(loop(init=(move("reg.1", 2),))))
    counted_loop = kernel.bodies[0][1]
    assert (counted_loop.start, counted_loop.stop) == (2, Register("reg.2"))


def test_a_loop_downwards():
    kernel = check(lnc(loop(12, -1, (move("reg.1", 4), move("reg.2", 0)))))
    assert kernel.bodies[0][1].step == -1


def test_a_while_loop():
    test = ("reg.1", "", "body.2", "exit.3")
    body = array(
        block("main.1", move("reg.1", 3), branch(4, *test)),
        block("body.2", add_to("reg.1", -1), branch(4, *test, "brnz.4")),
        block("exit.3"),
    )
    alloc, loop = check(lnc(body)).bodies[0]
    assert alloc.op == "register_alloc"
    assert alloc.operands == {"dst": Register("reg.1"), "x": 3}
    assert isinstance(loop, WhileLoop)
    assert loop.body[0].operands["src1"] == -1


def test_instructions_in_a_fixed_order():
    body = array(
        block("main.1", jump("label.2")),
        block(
            "label.2", tensor_tensor("inst.1"), tensor_tensor("inst.2"), jump("label.3"), fixed=True
        ),
        block("label.3", tensor_tensor("inst.3")),
    )
    region, last = check(lnc(body)).bodies[0]
    assert isinstance(region, NoReorder)
    assert [inst.name for inst in region.body] == ["inst.1", "inst.2"]
    assert last.name == "inst.3"


def test_edges_are_dependences():
    body = array(block("main.1", tensor_tensor("x"), tensor_tensor("y"), tensor_tensor("z")))
    edges = (
        made(107, 0, text("x"), array(text("y"), text("z"))),
        made(107, 0, text("y"), array(text("z"))),
    )
    kernel = check(lnc(body, edges=edges))
    assert [inst.depends_on for inst in kernel.bodies[0]] == [(), ("x",), ("x", "y")]


def test_two_cores():
    body = array(block("main.1", tensor_tensor("inst.1")))
    second_body = array(
        block(
            "main.1", dma(bir(tensor("tensor0", SBUF, 64, [8]), 0, ((8, 1),)), bir(A, 0, ((1, 1),)))
        )
    )
    kernel = check(lnc(body, second_body))
    assert kernel.lnc == 2
    shapes = [body[0].operands["dst"].tensor.shape for body in kernel.bodies]
    assert shapes == [(128, 512), (64, 8)]


def test_a_kernel_for_one_core_without_lnc():
    inner = made(
        105, 0, text("kernel"), array(A), array(OUT), array(block("main.1", tensor_tensor("i")))
    )
    kernel = check(header("KLR", 11) + made(236, 2, inner))
    assert kernel.lnc == 1


def test_operators_without_a_public_function_keep_their_fields():
    load = statement(
        made(218, 17, made(160, 0, ref(bir(TILE, 0, TILE_PATTERN)), no(True))), "inst.1"
    )
    (inst,) = check(lnc(array(block("main.1", load)))).bodies[0]
    assert inst.op == "klir.loadStationary"
    assert inst.operands["isTranspose"] is True


def test_registers_loaded_and_stored():
    access = bir(tensor("n", SBUF, 1, [1], I32), 0, ((1, 1), (1, 1)))
    loads = [
        statement(made(218, 43, made(190, 0, text("reg.1"), ref(access))), f"load.{index}")
        for index in range(2)
    ]
    store = statement(made(218, 44, made(191, 0, ref(access), text("reg.1"))), "store.1")
    ops = [inst.op for inst in check(lnc(array(block("main.1", *loads, store)))).bodies[0]]
    assert ops == ["register_alloc", "register_load", "register_store"]


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        (
            (block("main.1", branch(4, "r", "", "then.2", "else.3")), block("then.2", jump("end.4")),
             block("else.3", jump("end.4")), block("end.4")),
            "begins no loop",
        ),
        ((block("main.1", jump("far.3")), block("near.2", jump("far.3")), block("far.3")), "not to the next"),
        ((block("main.1", jump("main.1")), block("main.1")), "one label"),
        ((block("main.1"), block("label.2")), "has no successor"),
        ((block("main.1", jump("main.1")),), "ends with a branch"),
    ],
)  # fmt: skip
def test_blocks_that_are_no_loops_are_refused(blocks, said):
    with pytest.raises(NkiFileError, match=said) as caught:
        klir.loads(lnc(array(*blocks)), target="trn2")
    assert caught.value.code == "NKI-FILE-CONTROL"


def test_a_branch_in_the_middle_of_a_block():
    body = array(block("main.1", jump("main.1"), tensor_tensor("i")))
    with pytest.raises(NkiFileError, match="does not end its block"):
        klir.loads(lnc(body), target="trn2")


@pytest.mark.parametrize(
    ("contents", "code"),
    [
        (made(236, 4, text("x.klir")), "NKI-FILE-CONTENTS"),
        (made(236, 0, made(2, 0)), "NKI-FILE-KLIR"),
    ],
)
def test_other_contents(contents, code):
    with pytest.raises(NkiFileError) as caught:
        klir.loads(header() + contents)
    assert caught.value.code == code


def test_types_that_the_language_does_not_have():
    odd = tensor("e3", SBUF, 4, [4], made(111, 1))
    with pytest.raises(NkiFileError, match="float8e3"):
        klir.loads(lnc(array(block("main.1", dma(bir(odd, 0, ((1, 1),)), bir(A, 0, ((1, 1),)))))))


@pytest.mark.parametrize("free", [[1 << 60, 1 << 60], [2] * 40])
def test_tensors_larger_than_any_memory(free):
    huge = tensor("huge", HBM, 256, [])
    shape = made(112, 0, num(256), array())
    assert shape in huge
    huge = huge.replace(shape, made(112, 0, num(256), array(*map(num, free))))
    inner = made(108, 0, text("k"), array(huge), *[array()] * 5)
    with pytest.raises(NkiFileError, match="fits into no memory"):
        klir.loads(header() + made(236, 3, inner))


def test_one_name_for_two_tensors():
    renamed = tensor("tensor0", SBUF, 4, [4])
    body = array(block("main.1", dma(bir(TILE, 0, TILE_PATTERN), bir(A, 0, TILE_PATTERN)), dma(bir(renamed, 0, ((1, 1),)), bir(A, 0, ((1, 1),)))))  # fmt: skip
    with pytest.raises(NkiFileError, match="two different tensors"):
        klir.loads(lnc(body))


def test_floats_that_are_no_numbers():
    value = made(131, 3, b"\xfa" + struct.pack(">I", 0x7FC00001))
    fill = made(218, 25, made(158, 0, ref(bir(TILE, 0, TILE_PATTERN)), value, F32, made(130, 0)))
    kernel = klir.loads(lnc(array(block("main.1", statement(fill, "m")))), target="trn2")
    written = klir.dumps(kernel)
    again = klir.loads(written.klir, written.companion)
    assert klir.dumps(again) == written


def test_constants_that_are_missing():
    entry = made(106, 0, text("tmp.4"), text("shared_constants/x.npy"))
    data = lnc(array(block("main.1")), constants=(entry,))
    with pytest.raises(NkiFileError, match="NKI-FILE-CONSTANT"):
        klir.loads(data, target="trn2")


@pytest.mark.parametrize(
    "name", ["../x.npy", "/etc/passwd", "a/../../x", "a\\b", "", "a//b", "c:x"]
)
def test_constants_outside_are_refused(name):
    entry = made(106, 0, text("tmp.4"), text(name))
    with pytest.raises(NkiFileError, match="not in the folder"):
        klir.loads(lnc(array(block("main.1")), constants=(entry,)), None, lambda _: b"")
