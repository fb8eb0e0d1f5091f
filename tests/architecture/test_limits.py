"""Each row of the table of limits in docs/security.md: beyond the limit the code comes out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hlo_tools
from hlo_tools.errors import HloError
from hlo_tools.evaluate.evaluator import Evaluator
from hlo_tools.evaluate.limits import MOST_DIMENSIONS
from hlo_tools.evaluate.limits import Limits as Work
from hlo_tools.files import compression
from hlo_tools.ir import external_constants
from hlo_tools.kernels import embedded
from hlo_tools.kernels.backend_config import BackendConfig
from hlo_tools.kernels.location import MOST_BYTES, locate
from hlo_tools.passes import Pipeline
from hlo_tools.rewrite import inlining
from hlo_tools.text import cursor
from neff import runtime, write
from neff.container import Limits, open_package, strict_json
from neff.encoding import reader
from neff.errors import NeffError
from nki_lang import klir
from nki_lang.base.errors import NkiError
from nki_lang.klir import companion, reach, schema
from nki_lang.klir import file as klir_file
from tests.cli import test_damaged_modules as damaged
from tests.klir import samples
from tests.neff.programs import addition
from tests.neff.test_encoding_codes import RIGHT, decode

ROOT = Path(__file__).resolve().parents[2]
Case = Callable[[Path, pytest.MonkeyPatch], object]


def large(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size + 1)  # takes no room on disk
    return path


def a_kernel_that_a_module_names(folder: Path, _: pytest.MonkeyPatch) -> object:
    large(folder / "k.klir", MOST_BYTES)
    return locate(
        BackendConfig(binary="k.klir", func_name="k", input_names=[], output_names=[]), folder
    )


def a_kernel_that_is_read(folder: Path, _: pytest.MonkeyPatch) -> object:
    return klir.read(large(folder / "k.klir", klir_file.MAX_FILE_BYTES))


def an_embedded_kernel(_: Path, patch: pytest.MonkeyPatch) -> object:
    packed = embedded.pack({"k.klir": bytes(4096)})
    config = BackendConfig(
        binary="k.klir", func_name="k", input_names=[], output_names=[],
        extra_binary={embedded.EMBEDDED: packed},
    )  # fmt: skip
    embedded.files_of(config)
    patch.setattr(embedded, "_MOST_BYTES", 1000)
    return embedded.files_of(config)


def nested_accesses(_: Path, patch: pytest.MonkeyPatch) -> object:
    files = klir.dumps(samples.everything())
    patch.setattr(schema, "MAX_DEPTH", 0)
    return klir.loads(files.klir, files.companion, files.constants)


def nested_values(_: Path, patch: pytest.MonkeyPatch) -> object:
    files = klir.dumps(samples.everything())
    klir.loads(files.klir, files.companion, files.constants)
    patch.setattr("nki_lang.klir.companion._MAX_NESTING", -1)
    return klir.loads(files.klir, files.companion, files.constants)


def a_vast_tensor(_: Path, patch: pytest.MonkeyPatch) -> object:
    files = klir.dumps(samples.scale())
    patch.setattr(reach, "MAX_ELEMENTS", 100)
    return klir.loads(files.klir, None, target="trn2")


def a_long_step(_: Path, __: pytest.MonkeyPatch) -> object:
    return decode(replace(RIGHT, access=(0, 0, 1, 1 << 50, 1, 0, 0, 0, 0, 0)))


def a_compressed_module(folder: Path, patch: pytest.MonkeyPatch) -> object:
    patch.setattr(compression, "RATIO_FROM", 1 << 20)
    (folder / "m.pb.gz").write_bytes(gzip.compress(bytes(8 << 20) * 4, mtime=0))
    patch.setattr(compression, "RATIO", 100)
    return hlo_tools.load(folder / "m.pb.gz")


def nested_text(_: Path, __: pytest.MonkeyPatch) -> object:
    shape = "(" * 300 + "f32[]" + ")" * 300
    return hlo_tools.load(f"HloModule m\nENTRY e {{ ROOT p = {shape} parameter(0) }}".encode())


def a_constant_that_was_moved(folder: Path, _: pytest.MonkeyPatch) -> object:
    from hlo_tools.ir.external_constants import externalize, inline

    text = "HloModule m\nENTRY e { ROOT c = f32[64] constant({" + "1," * 63 + "1}) }"
    module = hlo_tools.load(text.encode())
    externalize(module, folder, threshold=8)
    (file,) = folder.rglob("*.npy")
    large(file, 1 << 32)
    return inline(module, folder)


_SUM = b"HloModule m\nENTRY e { a = f32[1000] parameter(0) ROOT s = f32[1000] add(a, a) }"


def much_work(_: Path, __: pytest.MonkeyPatch) -> object:
    arrays = [np.ones(1000, np.float32)]
    return Evaluator(hlo_tools.load(_SUM), limits=Work(work=10)).run(arrays)


def much_memory(_: Path, __: pytest.MonkeyPatch) -> object:
    arrays = [np.ones(1000, np.float32)]
    return Evaluator(hlo_tools.load(_SUM), limits=Work(memory=10)).run(arrays)


def many_calls(_: Path, __: pytest.MonkeyPatch) -> object:
    return Evaluator(damaged.doubling(40)).run([np.float32(1)])


def many_dimensions(_: Path, __: pytest.MonkeyPatch) -> object:
    return damaged.ranked()


def much_inlining(_: Path, __: pytest.MonkeyPatch) -> object:
    return damaged.inlined()


def neff(folder: Path) -> Path:
    path = folder / "m.neff"
    write(addition(), path)
    return path


def limited(**limits: int) -> Case:
    return lambda folder, _: open_package(neff(folder), limits=Limits(**limits))


def large_json(folder: Path, patch: pytest.MonkeyPatch) -> object:
    path = neff(folder)
    patch.setattr(strict_json, "_MAX_BYTES", 10)
    return open_package(path).document("sg00/def.json")


def much_memory_of_a_device(_: Path, __: pytest.MonkeyPatch) -> object:
    program = addition()
    program.scratch_bytes = 1 << 50
    return runtime.load(program)


def unpacked(_: Path, patch: pytest.MonkeyPatch) -> object:
    patch.setattr(compression, "LIMIT", 1 << 10)
    return hlo_tools.load(gzip.compress(bytes(1 << 12), mtime=0))


def many_dimensions_of_a_kernel(_: Path, patch: pytest.MonkeyPatch) -> object:
    files = klir.dumps(samples.scale())
    patch.setattr(reach, "_MAX_DIMENSIONS", 1)
    return klir.loads(files.klir, None, target="trn2")


def many_dimensions_in_a_neff(_: Path, patch: pytest.MonkeyPatch) -> object:
    decode(RIGHT)
    patch.setattr(reader, "_MAX_RANK", 0)
    return decode(RIGHT)


CASES: dict[str, dict[Case, str]] = {
    "kernel file, record or constant that a module names": {a_kernel_that_a_module_names: "HLO-TOO-LARGE"},
    "kernel file, record or constant that `klir.read` opens": {a_kernel_that_is_read: "NKI-FILE-SIZE"},
    "files of a kernel embedded in a module": {an_embedded_kernel: "HLO-EMBEDDED"},
    "nested records of a kernel file": {
        nested_accesses: "NKI-FILE-KLIR", nested_values: "NKI-FILE-COMPANION"},
    "tensor of a kernel file": {
        a_vast_tensor: "NKI-FILE-ACCESS", many_dimensions_of_a_kernel: "NKI-FILE-ACCESS"},
    "compressed module": {
        a_compressed_module: "HLO-TOO-LARGE", unpacked: "HLO-TOO-LARGE"},
    "nested shapes and literals of HLO text": {nested_text: "HLO-TEXT-DEPTH"},
    "constant moved out of a module": {a_constant_that_was_moved: "HLO-EXTERNAL"},
    "evaluation of a module": {much_work: "HLO-EVALUATE-LIMIT", much_memory: "HLO-EVALUATE-LIMIT"},
    "instructions that calls of calls execute in an evaluation": {many_calls: "HLO-EVALUATE-LIMIT"},
    "dimensions of an evaluated array": {many_dimensions: "HLO-RANK"},
    "instructions that inlining makes": {much_inlining: "HLO-INLINE-LIMIT"},
    "NEFF, and its archive": {limited(total_bytes=100): "NEFF-TOO-LARGE"},
    "gzip stream of a NEFF": {limited(ratio=0, ratio_free_bytes=100): "NEFF-RATIO"},
    "access in a NEFF": {
        a_long_step: "NEFF-ENGINE-ACCESS", many_dimensions_in_a_neff: "NEFF-ENGINE-TENSOR"},
    "members of a NEFF": {limited(members=3): "NEFF-TAR-COUNT"},
    "name of a NEFF's member": {
        limited(name_bytes=3): "NEFF-TAR-NAME", limited(depth=1): "NEFF-TAR-NAME"},
    "JSON member of a NEFF": {large_json: "NEFF-JSON"},
    "memory of a NEFF's program": {much_memory_of_a_device: "NEFF-MEMORY"},
}  # fmt: skip


def rows() -> dict[str, str]:
    text = (ROOT / "docs" / "security.md").read_text().partition("## Limits")[2]
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0].strip(): cells[2] for cells in lines if cells[0].strip() != "what"}


def limits() -> dict[str, str]:
    text = (ROOT / "docs" / "security.md").read_text().partition("## Limits")[2]
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0].strip(): cells[1].strip() for cells in lines}


def size(count: int) -> str:
    unit = next(unit for unit in (30, 20, 10) if count % (1 << unit) == 0)
    return f"{count >> unit} {({30: 'GiB', 20: 'MiB', 10: 'KiB'})[unit]}"


def test_the_figures_are_those_of_the_code() -> None:
    work, neff_limits = Work(), Limits()
    assert (reach.MAX_ELEMENTS, reader._MAX_ELEMENTS) == (1 << 40, 1 << 50)
    assert (work.work, work.calls, inlining.MOST_MADE) == (1e12, 10**6, 10**6)
    figures = {
        "kernel file, record or constant that a module names": size(MOST_BYTES),
        "kernel file, record or constant that `klir.read` opens": size(klir_file.MAX_FILE_BYTES),
        "files of a kernel embedded in a module": f"{size(embedded._MOST_BYTES)} unpacked",
        "nested records of a kernel file":
            f"{schema.MAX_DEPTH} accesses, {companion._MAX_NESTING} values of the record",
        "tensor of a kernel file":
            f"{reach._MAX_DIMENSIONS} dimensions, 2^40 elements; steps of its accesses, too",
        "access in a NEFF":
            f"{reader._MAX_RANK} dimensions, 2^50 elements, steps below 2^50",
        "compressed module": f"{size(compression.LIMIT)} unpacked; from"
            f" {size(compression.RATIO_FROM)} on, {compression.RATIO} times the file",
        "nested shapes and literals of HLO text": f"{cursor.MAX_DEPTH} levels",
        "constant moved out of a module":
            f"8 times its elements' bytes and {size(external_constants._HEADER_BYTES)}",
        "evaluation of a module": f"10^12 operations, {size(work.memory)} for one value",
        "instructions that calls of calls execute in an evaluation": "10^6, loops aside",
        "dimensions of an evaluated array": str(MOST_DIMENSIONS),
        "instructions that inlining makes": "10^6",
        "NEFF, and its archive": size(neff_limits.total_bytes),
        "gzip stream of a NEFF":
            f"{neff_limits.ratio} times the file, from {size(neff_limits.ratio_free_bytes)} on",
        "members of a NEFF": f"{neff_limits.members:,}",
        "name of a NEFF's member":
            f"{neff_limits.name_bytes} bytes, {neff_limits.depth} folders",
        "JSON member of a NEFF": size(strict_json._MAX_BYTES),
        "memory of a NEFF's program": "what its target has",
    }  # fmt: skip
    current = limits()
    current.pop("what")
    assert current == figures


def test_the_limit_of_inlining_is_raised() -> None:
    module = damaged.doubling(4)
    with pytest.raises(HloError) as caught:
        Pipeline.parse("call-inlining{most=3}").run(module)
    assert caught.value.code == "HLO-INLINE-LIMIT"
    Pipeline.parse("call-inlining{most=100}").run(damaged.doubling(4))


def test_every_row_has_a_case_with_its_codes() -> None:
    assert rows().keys() == CASES.keys()
    for row, codes in rows().items():
        assert {f"`{code}`" for code in CASES[row].values()} == set(codes.strip().split(", "))


@pytest.mark.parametrize(
    ("case", "code"),
    [pytest.param(case, code, id=f"{row}-{code}") for row, cases in CASES.items() for case, code in cases.items()],
)  # fmt: skip
def test_a_limit(case: Case, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((HloError, NkiError, NeffError)) as caught:
        case(tmp_path, monkeypatch)
    assert caught.value.code == code


def test_an_array_with_a_header_that_does_not_parse(tmp_path: Path) -> None:
    """NumPy's reader then raises an error of the tokenizer."""
    from hlo_tools.cli.shared.module_inputs import _read
    from neff.cli.arrays import _load
    from nki_lang.klir.constants import from_npy

    header = b"{'descr': ('<f4', 'fortran_order': False, 'shape': (3"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    (tmp_path / "x.npy").write_bytes(data)
    path = str(tmp_path / "x.npy")
    for read, code in ((_read, "HLO-NPY"), (_load, "NEFF-NPY")):
        with pytest.raises((HloError, NeffError)) as caught:
            read(path)
        assert caught.value.code == code
    with pytest.raises(NkiError) as of_klir:
        from_npy("x", data)
    assert of_klir.value.code == "NKI-FILE-CONSTANT"
    json.dumps(of_klir.value.details)
