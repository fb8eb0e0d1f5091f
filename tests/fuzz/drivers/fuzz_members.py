"""Change single fields of NEFF members, kernel files, modules and cache entries, and read them.

Usage: python -m tests.fuzz.drivers.fuzz_members [--seed N] [--count N] [--minutes M] [--kinds a,b]
           [--keep FOLDER] [--json FILE]

Each case is a valid file with one to three fields changed: a value of a JSON member, a word of an
engine's program, an item of the kernel binary's CBOR, a field of a protobuf message. Sizes and
hashes around it are made to fit, so that the field itself is what the reader must refuse. Cases
are read, described and, where they are small, executed in a child process with limits of memory
and time. Exit code 1 when anything but a coded error comes out, a case takes too long or too
much memory, or the child dies; ``--keep`` writes such cases to a folder.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib
import json
import os
import random
import resource
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from nki_lang.klir.cbor import Damage
from tests.fuzz.drivers.children import Child, serve
from tests.fuzz.drivers.drawn_files import (
    kernel_files,
    klir_of,
    members_of,
    module_file,
    neff_files,
)
from tests.fuzz.drivers.driving import Driver
from tests.fuzz.drivers.mutations import change_fields

SLOW, SILENT = 10.0, 120.0
"""Processor seconds that a case may take; seconds after which a silent child is ended."""
MEMORY = 1 << 30
"""Bytes of address space that a case may add to those of the child."""
EXECUTED = 1 << 26
"""Bytes of a program's memory, at most, for it to be executed too."""

NUMBERS = (-1, 0, 1, 7, 2**15, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))
VALUES: tuple[Any, ...] = (
    *NUMBERS, 10**30, 1.5, 1e308, None, True, "", "a\0b", "../x", "/etc/passwd", "x" * 5000, [], {},
    [[[[[[[[1]]]]]]]], {"a": {"b": {}}}, ["a", 1], "float99", "\ud800",
)  # fmt: skip
FLAGS = ["--target=trn2"]
"""The format of the changed entry."""
INTERNAL = ("NEFF-INTERNAL", "HLO-INTERNAL")
"""Codes of our own bugs."""

Files = dict[str, bytes]


# -- changing one field ------------------------------------------------------------------------


def change_json(data: bytes, rng: random.Random) -> bytes:
    """One value of a document replaced, removed, repeated or exchanged for another."""
    document = json.loads(data)
    positions = list(_places(document))
    if not positions:
        return json.dumps(rng.choice(VALUES)).encode()
    holder, key = rng.choice(positions)
    other_holder, other_key = rng.choice(positions)
    how = rng.choice(("replace", "replace", "replace", "remove", "exchange", "rename"))
    if how == "remove":
        del holder[key]
    elif how == "exchange":
        value = copy.deepcopy(other_holder[other_key])
        holder[key] = value
    elif how == "rename" and isinstance(holder, dict):
        holder[str(rng.choice(VALUES))] = holder.pop(key)
    else:
        holder[key] = copy.deepcopy(rng.choice(VALUES))
    return json.dumps(document).encode()


def _places(document: Any) -> Any:
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(pairs) if isinstance(document, dict | list) else ():
        yield document, key
        yield from _places(value)


def change_engine(data: bytes, rng: random.Random) -> bytes:
    """One word of a section of an engine's program; the sizes in the header fit."""
    from neff.encoding.varints import decode_words, encode_words
    from neff.encoding.writer import HEADER

    head = list(HEADER.unpack_from(data))
    sizes, offset, sections = head[8:20:2], HEADER.size, []
    for size in sizes:
        sections.append(data[offset : offset + size])
        offset += size
    which = rng.randrange(2, 6)
    words = decode_words(sections[which])
    if words:
        position = rng.randrange(len(words))
        near = (words[position] + rng.choice((-1, 1, 2)), rng.choice(words), -words[position])
        words[position] = max(-(2**63), min(2**63 - 1, rng.choice((*near, *NUMBERS))))
        sections[which] = encode_words(words)
    if rng.random() < 0.1:
        head[9 + 2 * rng.randrange(6)] = rng.choice((0, 1, 1000, 2**40))
    for index, section in enumerate(sections):
        head[8 + 2 * index] = len(section)
    return HEADER.pack(*head) + b"".join(sections)


def change_cbor(data: bytes, rng: random.Random) -> bytes:
    """One item of a kernel binary: its number or length, or the whole of it for another."""
    items = _items(data, 0)
    begin, head, end = rng.choice(items)
    if rng.random() < 0.4:
        second_begin, _, other_end = rng.choice(items)
        return data[:begin] + data[second_begin:other_end] + data[end:]
    if rng.random() < 0.2:
        return data[:begin] + data[end:]
    kind = data[begin] & 0xE0
    old = _number(data, begin, head)
    number = rng.choice((old + 1, old - 1, 2 * old, old // 2, old + 128, *NUMBERS))
    return data[:begin] + struct.pack(">BQ", kind | 27, abs(number) & (2**64 - 1)) + data[head:]


def _number(data: bytes, begin: int, head: int) -> int:
    """The number, or the length, that an item's head has."""
    return int.from_bytes(data[begin + 1 : head], "big") if head > begin + 1 else data[begin] & 31


def _items(data: bytes, offset: int) -> list[tuple[int, int, int]]:
    """(begin, end of its head, end) of each CBOR item from ``offset`` on."""
    items: list[tuple[int, int, int]] = []

    def item(start: int) -> int:
        if start >= len(data):
            return len(data)
        kind, short = data[start] >> 5, data[start] & 31
        width = {24: 1, 25: 2, 26: 4, 27: 8}.get(short, 0)
        head = start + 1 + width
        number = _number(data, start, head)
        position = len(items)
        items.append((start, head, head))
        end = head
        if kind in (2, 3):
            end = head + number
        for _ in range({4: number, 5: 2 * number, 6: 1}.get(kind, 0)):
            if end >= len(data):
                break
            end = item(end)
        items[position] = (start, head, end)
        return end

    while offset < len(data):
        offset = item(offset)
    return items


# -- the files that are changed ----------------------------------------------------------------


def _kernel() -> Any:
    import nki_lang.isa as nisa
    import nki_lang.language as nl
    from nki_lang.kernel import trace

    def kernel(x, count):  # type: ignore[no-untyped-def]
        import numpy as np

        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile, total = (nl.ndarray(x.shape, x.dtype, nl.sbuf) for _ in range(2))
        table = nl.shared_constant(np.arange(32, dtype=np.float32).reshape(4, 8))
        iterations = nisa.register_alloc()
        nisa.register_load(iterations, nl.load(count))
        nisa.dma_copy(total, table)
        nisa.dma_copy(tile, x)
        nl.fori_loop(
            0, iterations, lambda _: nisa.tensor_tensor(total, total, tile, nl.add) and None
        )  # fmt: skip
        nisa.activation(total, nl.exp, total, scale=0.5)
        product = nl.ndarray((8, 8), nl.float32, nl.psum)
        nisa.nc_matmul(product, tile, total)
        nisa.tensor_copy(total, product[0:4])
        nisa.dma_copy(out, total)
        return out

    import numpy as np

    return trace(kernel, (np.ones((4, 8), np.float32), np.ones((1, 1), np.int32)), target="trn2")


_MODULE = """HloModule m
ENTRY e { a = f32[16,8] parameter(0) c = f32[8,4] constant({{1,2,3,4},{1,2,3,4},{1,2,3,4},{1,2,3,4},
  {1,2,3,4},{1,2,3,4},{1,2,3,4},{1,2,3,4}})
  d = f32[16,4] dot(a, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[16,4] tanh(d) }"""


@cache
def seeds() -> dict[str, tuple[tuple[Files, ...], Callable[[Files, random.Random], Files]]]:
    """Kind -> valid sets of files, and what changes one of them."""
    return {
        "neff": (tuple(_neffs()), changed_neff),
        "klir": ((klir_of(_kernel()),), changed_klir),
        "module": (({"model.pb": _module_bytes()},), changed_module),
        "entry": ((_entry(),), changed_entry),
    }


def _neffs() -> list[Files]:
    import hlo_tools
    from neff.compiler import compile, compile_kernel

    module = hlo_tools.load(_MODULE.encode())
    return [members_of(compile_kernel(_kernel())), members_of(compile(module, target="trn2"))]


def _module_bytes() -> bytes:
    import hlo_tools

    return hlo_tools.load(_MODULE.encode()).module_bytes()


def _entry() -> Files:
    """A cache entry whose module calls a kernel; without a name, what its files mean."""
    from hlo_tools.extract.bundle import write_bundle

    with tempfile.TemporaryDirectory() as folder:
        module = _calling(Path(folder))
        entry = write_bundle(Path(folder) / "cache", module, FLAGS)
        files = {
            str(path.relative_to(entry.parents[1])): path.read_bytes()
            for path in sorted(entry.rglob("*"))
            if path.is_file()
        }
        return files | {
            "": json.dumps({n: _meaning(n, data) for n, data in files.items()}).encode()
        }


def _calling(folder: Path) -> bytes:
    import numpy as np

    from hlo_tools.frameworks.numpy_kernel import NumpyKernel
    from neff.device.frameworks.numpy_calls import call_program

    def scaled(x):  # type: ignore[no-untyped-def]
        import nki_lang.isa as nisa
        import nki_lang.language as nl

        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nl.store(out, tile)
        return out

    os.environ["NKI_HLO_CACHE"] = str(folder / "kernels")
    return call_program(NumpyKernel("scaled", scaled, ()).bind(np.ones((4, 8), np.float32)).plan)


def changed_neff(files: Files, rng: random.Random) -> Files:
    """The same members with a field changed; the hash of the payload fits."""
    name = rng.choice([name for name in files if name])
    data = files[name]
    if data[:1] in (b"{", b"["):
        data = change_json(data, rng)
    elif name.endswith(".npy"):
        data = data[: rng.randrange(len(data))] if rng.random() < 0.5 else data + b"\0"
    elif rng.random() < 0.9:
        try:
            data = change_engine(data, rng)
        except (struct.error, ValueError, IndexError):
            data = data[: rng.randrange(len(data) + 1)]
    else:
        name = rng.choice((name, "../x", "a\0b", "sg00/" * 20 + "x", "", name.upper()))
    return files | {name: data}


def changed_klir(files: Files, rng: random.Random) -> Files:
    """A kernel file, its record or a constant; the record's hash of the kernel fits."""
    name = rng.choice(["k.klir", "k.klir", *files])
    if name.endswith(".json"):
        return files | {name: change_json(files[name], rng)}
    if name.endswith(".npy"):
        data = bytearray(files[name])
        data[rng.randrange(min(128, len(data)))] ^= 1 << rng.randrange(8)
        return files | {name: bytes(data)}
    kernel = without_checksum(files[name])
    data = kernel[:7] + change_cbor(kernel[7:], rng) if rng.random() < 0.9 else kernel[:40]
    record = json.loads(files["k.klir.json"])
    record["klir_sha256"] = hashlib.sha256(data).hexdigest()
    changed = files | {name: data, "k.klir.json": json.dumps(record).encode()}
    return (
        changed if rng.random() < 0.5 else {n: d for n, d in changed.items() if n[-5:] != ".json"}
    )


def without_checksum(kernel: bytes) -> bytes:
    """A kernel file as others write it, whose damage the checksum does not show."""
    from nki_lang.klir import schema

    _, behind = schema.reader("KLRMetaData")(kernel, 7, schema.ReadState())
    name = schema.writer("KLRMetaData")(schema.node("KLRMetaData")("NKI"))
    return kernel[:7] + name + kernel[behind:]


def changed_module(files: Files, rng: random.Random) -> Files:
    """One field of the message."""
    (name,) = files
    return {name: change_fields(files[name], rng)}


def changed_entry(files: Files, rng: random.Random) -> Files:
    """A file of a cache entry, whose name then does not fit."""
    name = rng.choice(sorted(name for name in files if name))
    data = files[name]
    if not name.endswith(".pb") and rng.random() < 0.1:
        return {file_name: files[file_name] for file_name in files if file_name != name}
    if name.endswith(".json"):
        data = change_json(data, rng)
    elif name.endswith(".klir"):
        plain = without_checksum(data)
        data = plain[:7] + change_cbor(plain[7:], rng)
    else:
        data = change_fields(data, rng)
    return files | {name: data}


# -- reading -----------------------------------------------------------------------------------


def read_neff(files: Files, folder: Path) -> None:
    """Read, describe and verify the file; load and run what is small."""
    import numpy as np

    from neff.cli.verify import findings
    from neff.container import HEADER_SIZE, open_package, program_of
    from neff.container.archive import Member, write_archive
    from neff.container.header import OFFSETS
    from neff.container.inspect import describe
    from neff.runtime import load

    pieces: list[bytes] = []
    members = [Member(name, (data,)) for name, data in files.items() if name]
    write_archive(members, lambda data: pieces.append(bytes(data)), compressed=True)
    payload = b"".join(pieces)
    raw = bytearray(files[""][:HEADER_SIZE].ljust(HEADER_SIZE))
    struct.pack_into("<Q", raw, OFFSETS["data_size"], len(payload))
    raw[172:204] = hashlib.sha256(payload).digest()
    path = folder / "m.neff"
    path.write_bytes(bytes(raw) + payload)
    program = program_of(open_package(path))
    needed = program.scratch_bytes + sum(variable.nbytes for variable in program.variables.values())
    if needed <= EXECUTED:
        findings(path)
        model = load(path)
        model.run({n: np.zeros(d.shape, d.dtype.dtype) for n, d in _inputs(program).items()})
    json.dumps(describe(open_package(path)))


def _inputs(program: Any) -> dict[str, Any]:
    return {name: program.variables[name] for name in program.inputs}


def read_klir(files: Files, folder: Path) -> None:
    """Read the kernel with what lies beside it, write it again, print it, run and compile it."""
    import numpy as np

    from neff.compiler import compile_kernel
    from nki_lang import klir
    from nki_lang.execute import load

    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    kernel = klir.read(folder / "k.klir", target="trn2")
    str(kernel)
    klir.dumps(kernel)
    if sum(tensor.nbytes for tensor in _tensors(kernel)) <= EXECUTED:
        load(kernel).run([np.zeros(tensor.shape, tensor.dtype.dtype) for tensor in kernel.inputs])
        compile_kernel(kernel)


def _tensors(kernel: Any) -> set[Any]:
    from nki_lang.analysis.liveness import accesses_of

    named = {a.tensor for step in kernel.instructions() for a in accesses_of(step)}
    return named | {*kernel.inputs, *kernel.outputs}


def read_module(files: Files, folder: Path) -> None:
    """Load, look at everything, verify, lint and print the module."""
    import hlo_tools
    from hlo_tools.lint import lint
    from hlo_tools.verify import verify

    (data,) = files.values()
    path = folder / "model.pb"
    path.write_bytes(data)
    module = hlo_tools.load(path)
    list(module.instructions)
    verify(module)
    lint(module, target="trn2")
    module.to_text()


def read_entry(files: Files, folder: Path) -> None:
    """Look whether the entry is whole, and read its module and kernels whatever the answer.

    Raises:
        AssertionError: a change goes unnoticed.
    """
    import hlo_tools
    from hlo_tools.errors import HloError
    from hlo_tools.extract.bundle import MODULE_FILE, check_unchanged, complete_entries
    from hlo_tools.kernels.calls import resolve

    files = dict(files)
    meanings = json.loads(files.pop(""))
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    list(complete_entries(folder))
    (entry,) = {path.parent for path in folder.rglob(MODULE_FILE)}
    passes = False
    with contextlib.suppress(HloError):
        passes = not check_unchanged(entry)
    module = hlo_tools.load(entry / MODULE_FILE)
    for call in module.find_custom_calls():
        resolve(call.backend_config, entry)
    if passes and meanings != {name: _meaning(name, data) for name, data in files.items()}:
        raise AssertionError("a change goes unnoticed")


def _meaning(name: str, data: bytes) -> str:
    """A digest of a kernel or of flags, whatever the spaces of JSON are; a module has a key."""
    if name.endswith(".pb"):
        return ""
    with contextlib.suppress(ValueError):
        data = json.dumps(json.loads(data)).encode() if name.endswith(".json") else data
    return hashlib.sha256(data).hexdigest()


READERS = {"neff": read_neff, "klir": read_klir, "module": read_module, "entry": read_entry}


def answers() -> None:
    """Answer one request in the child process."""
    import warnings

    warnings.simplefilter("ignore")
    seeds()  # what the seeds need is loaded before memory is limited
    read = importlib.import_module("neff.container.read")
    read._check_header = lambda *_: None  # type: ignore[attr-defined]  # it refuses every change

    def answer(request: tuple[str, Files]) -> dict[str, Any]:
        kind, files = request
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            READERS[kind](files, Path(folder))
        return {"seconds": time.process_time() - start}

    serve(answer)


DRAWN = {
    "neff": neff_files, "klir": kernel_files, "module": lambda n: {"model.pb": module_file(n)},
}  # fmt: skip
"""Kind -> files of a random program; forty seeds share one."""


# -- the driver --------------------------------------------------------------------------------


def case(kind: str, seed: int) -> Files:
    """The changed files of a seed."""
    rng = random.Random(f"{kind} {seed}")
    chosen, change = seeds()[kind]
    drawn = DRAWN.get(kind) if rng.random() < 0.8 else None
    files = drawn(seed // 40) if drawn else rng.choice(chosen)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        try:
            files = change(files, rng)
        except (ValueError, KeyError, IndexError, TypeError, RecursionError, Damage):
            continue  # the change before left nothing that this one applies to
    return files


def fault_of(answer: dict[str, Any]) -> str:
    """Return the fault of an answer; "" for a coded error and for a file that can be read."""
    if "error" in answer:
        return answer["error"] if answer["code"] in ("", *INTERNAL) else ""
    return f"took {answer['seconds']:.1f} s" if answer["seconds"] > SLOW else ""


def main() -> int:
    """Run from the command line."""
    driver = Driver(__doc__)
    driver.parser.add_argument("--kinds", default=",".join(READERS))
    kinds = driver.parse().options.kinds.split(",")
    guarded = {"NKI_HLO_UNGUARDED": "0"}  # damaged programs fail in ways that whole ones must not
    child = Child("tests.fuzz.drivers.fuzz_members:answers", guarded, silent=SILENT)
    outcomes = Counter[str]()
    for seed in driver.seeds():
        for kind in kinds:
            files = case(kind, seed)
            answer = child.ask((kind, files))
            fault = fault_of(answer)
            outcomes[f"{kind} {'fault' if fault else answer.get('code') or 'reads'}"] += 1
            if fault:
                trace = answer.get("trace", "")
                report = {"kind": kind, "seed": seed, "fault": fault, "trace": trace}
                driver.found(report, f"{kind} seed {seed}: {fault}\n{trace}")
                _keep(driver.options.keep, f"{kind}-{seed}", files)
    child.stop()
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:6d} {outcome}")
    return driver.finish("seeds", outcomes)


def _keep(folder: Path | None, name: str, files: Files) -> None:
    for member, data in files.items() if folder is not None else ():
        assert folder is not None
        path = folder / name / (member.replace("/", "__").replace("\0", "0") or "header")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
