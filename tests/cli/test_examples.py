"""Every example of every command's help runs."""

from __future__ import annotations

import re
import shlex
import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.cli.commands import PROGRAM
from hlo_tools.kernel_calls import replace_matches
from nki_lang import klir, trace
from nki_lang.base.services import COMMANDS, service

MODEL = """
HloModule model
ENTRY main {
  x = f32[128,64] parameter(0)
  w = f32[64,64] parameter(1)
  dot.3 = f32[128,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/layer3/dot"}
  big = f32[128,64] exponential(dot.3)
  two = f32[] constant(2)
  twos = f32[128,64] broadcast(two), dimensions={}
  scaled = f32[128,64] multiply(big, twos)
  again = f32[128,64] multiply(x, twos)
  ROOT t = (f32[128,64], f32[128,64]) tuple(scaled, again)
}
"""
PATTERN = """
HloModule pattern
ENTRY main {
  x = f32[128,64] parameter(0)
  two = f32[] constant(2)
  twos = f32[128,64] broadcast(two), dimensions={}
  ROOT scaled = f32[128,64] multiply(x, twos)
}
"""
KERNELS = """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def softmax(x, rows=128):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, x.shape[0], rows):
        tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[nl.ds(r, rows)])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[nl.ds(r, rows)], src=tile)
    return out
"""
PYTHON = "import numpy as np\ndef softmax(x):\n    return x * np.float32(2)\n"
SCRIPT = """
import sys
import jax, numpy as np
if __name__ == "__main__":
    print(jax.jit(lambda a: a @ a)(np.ones((8, 8), np.float32)).sum(), sys.argv[1:])
"""
CHECKED = """
import numpy as np, nki
from kernels import softmax
nki.simulate(softmax)(np.ones((128, 64), np.float32))
"""
OLD = """
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def softmax(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.softmax(nl.load(x), axis=1))
    return out

if __name__ == "__main__":
    print(softmax(np.ones((128, 64), np.float32)).sum())
"""
PASSES = """
from dataclasses import dataclass
from hlo_tools.passes import Pass

@dataclass(frozen=True, slots=True)
class Doubling(Pass):
    "Do nothing."
    name = "doubling"

    def run(self, module):
        return False
"""
FINDS = {"bisect": 1, "diff": 1, "lint": 1}
"""Exit codes of examples that find something in these files."""
FRAMEWORK = {"run", "extract", "profile"}


def examples() -> list[object]:
    rows = []
    for entry in PROGRAM.commands:
        module = import_module(entry.module) if entry.module else service(entry.name, COMMANDS)
        if entry.name == "cache":  # its examples need a store
            continue
        verbs = getattr(module, "VERBS", {}).values() or [module.command]
        text = "\n".join(command.__doc__ or "" for command in verbs)
        commands = re.findall(r"Example: (nki-hlo .*)", text)
        assert commands, f"{entry.name} has no example"
        marks = [pytest.mark.jax] if entry.name in FRAMEWORK else []
        rows.append(pytest.param(commands, id=entry.name, marks=marks))
    return rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every file that the examples name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NKI_HLO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "kernels.py").write_text(KERNELS)
    scope: dict[str, object] = {}
    exec(compile(KERNELS.replace("@nki.jit", ""), str(tmp_path / "kernels.py"), "exec"), scope)
    for name in ("softmax", "softmax_v2"):
        function = scope["softmax"]
        traced = trace(function, [np.zeros((128, 64), "f4")], {}, target="trn2", grid=())  # pyright: ignore
        klir.write(traced, tmp_path / f"{name}.klir")
    (tmp_path / "softmax.hlo").write_text(PATTERN)
    (tmp_path / "passes.py").write_text(PASSES)
    (tmp_path / "old.py").write_text(OLD)
    (tmp_path / "cases.json").write_text('[{"x": "f32[128,64]"}]')
    for name in ("patterns", "references"):
        (tmp_path / f"{name}.py").write_text(PYTHON)
    module = hlo_tools.load(MODEL.encode())
    module.save(tmp_path / "before.pb")
    half = module.entry.find("again")
    (call,) = [call for call in replace_matches(module, PATTERN, "softmax.klir") if call.operands[0].name == "x"]  # fmt: skip
    call.replace_uses(module.entry.add("multiply", half.shape, [call.operands[0]] * 2))
    module.save(tmp_path / "after.pb")
    for name in ("before", "after"):
        (tmp_path / f"{name}.hlo").write_text(
            MODEL.replace("constant(2)", "constant(2.5)") if name == "after" else MODEL
        )
    mixed = hlo_tools.load(MODEL.encode())
    replace_matches(mixed, PATTERN, "softmax.klir", binary="softmax.klir")
    entry = mixed.entry
    first = mixed.find_custom_calls()[0]
    twos = entry.add("broadcast", first.shape, [entry.add("constant", hlo_tools.array_shape("f32"), literal=hlo_tools.literal_of(2.0, element="f32").proto)])  # fmt: skip
    first.replace_uses(entry.add("multiply", first.shape, [first.operands[0], twos]))
    first.remove()
    mixed.save(tmp_path / "model.pb")
    hlo_tools.load(MODEL.encode()).save(tmp_path / "model.hlo_module.pb")
    (tmp_path / "after_optimizations.txt").write_text(MODEL)
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "model.hlo").write_text(MODEL)
    (tmp_path / "hlo_artifacts").mkdir()
    for name in ("model.pb", "softmax.klir", "softmax.klir.json"):
        shutil.copy(tmp_path / name, tmp_path / "hlo_artifacts")
    for name, text in (("matmul.py", SCRIPT), ("train.py", SCRIPT)):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("lines", examples())
def test_examples_of(lines: list[str], folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for line in lines:
        words = shlex.split(line)[1:]
        if words[0] == "check":
            (folder / "train.py").write_text(CHECKED)
        if ">" in words:
            words = words[: words.index(">")]
        code = main(words)
        shown = capfd.readouterr()
        assert code in (0, FINDS.get(words[0], 0)), f"{line}\n{shown.out}{shown.err}"
        assert "Traceback" not in shown.err


def test_examples_stand_in_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--help"]) == 0
    shown = capsys.readouterr().out
    assert (
        "\n  Examples:\n    nki-hlo lint --target trn2 hlo_artifacts/\n    nki-hlo lint " in shown
    )
