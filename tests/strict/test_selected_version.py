"""``NKI_HLO_NKI``, ``--nki`` and the setting ``nki``: kernels follow the rules of one version."""

from __future__ import annotations

import json
from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from hlo_tools.cli import main
from nki_lang.base.errors import NkiError
from nki_lang.base.versions import VERSION_VARIABLE
from nki_lang.execute import simulate
from tests.execute.ways import every_way, run

ARRAYS = [
    np.random.default_rng(5).standard_normal((4, 8), np.float32),
    np.arange(32, dtype=np.float32).reshape(4, 8),
]


@nki.jit
def looped(x):
    t = nl.load(x)
    for _ in nl.dynamic_range(3):
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out


@nki.jit
def divided(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    source_tiles = nl.tiles(x, tile_shape=(4, 4))
    result_tiles = nl.tiles(out, tile_shape=(4, 4))
    for column in range(2):
        nl.store(result_tiles[0, column].data, nl.load(source_tiles[0, column].data))
    return out


@nki.jit
def assigned(x):
    t = nl.load(x)
    t[:, 0:4] = 1.0
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out


@nki.jit
def counted(x):
    t, registers = nl.load(x), [nisa.register_alloc(2)]
    while registers[0]:
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
        nisa.register_move(registers[0], registers[0] - 1)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out


def refusal(mode: str, kernel, x) -> tuple[str, int]:
    """Return the code and the line of the error that a kernel raises."""
    with pytest.raises(NkiError) as caught:
        run(mode, kernel, x)
    location = caught.value.location
    assert location is not None and location.file == __file__
    return caught.value.code, location.line - kernel.func.__code__.co_firstlineno


@pytest.mark.filterwarnings("ignore:.*NKI-STRICT-DEPRECATED")
@every_way
def test_a_removed_name_is_refused_in_the_selected_version_only(mode, monkeypatch):
    for x in ARRAYS:
        monkeypatch.setenv(VERSION_VARIABLE, "0.7")
        assert refusal(mode, looped, x) == ("NKI-STRICT-REMOVED", 3)
        monkeypatch.setenv(VERSION_VARIABLE, "0.6")
        np.testing.assert_array_equal(run(mode, looped, x), x * 8)
        monkeypatch.delenv(VERSION_VARIABLE)
        np.testing.assert_array_equal(run(mode, looped, x), x * 8)


@every_way
def test_a_newer_name_is_refused(mode, monkeypatch):
    for x in ARRAYS:
        np.testing.assert_array_equal(run(mode, divided, x), x)
        monkeypatch.setenv(VERSION_VARIABLE, "0.6")
        assert refusal(mode, divided, x) == ("NKI-STRICT-NEWER", 3)
        monkeypatch.setenv(VERSION_VARIABLE, "0.7")
        np.testing.assert_array_equal(run(mode, divided, x), x)


def test_a_loop_on_a_register_that_the_source_hides_is_refused(monkeypatch):
    for x in ARRAYS:
        np.testing.assert_array_equal(simulate(counted)(x), x * 4)
        monkeypatch.setenv(VERSION_VARIABLE, "0.7")
        for mode in ("simulate", "neff"):
            with pytest.raises(TypeError, match=r"nl\.while_loop") as caught:
                run(mode, counted, x)
            assert caught.value.code == "NKI-REGISTER-VALUE"
        monkeypatch.delenv(VERSION_VARIABLE)


@every_way
def test_assignments_to_tiles_run_in_every_version(mode, monkeypatch):
    for version, x in zip(("0.6", "0.7"), ARRAYS, strict=True):
        monkeypatch.setenv(VERSION_VARIABLE, version)
        expected = np.concatenate([np.ones((4, 4), np.float32), x[:, 4:]], 1)
        np.testing.assert_array_equal(run(mode, assigned, x), expected)


def test_the_error_counts_the_others_and_deprecated_names_warn(monkeypatch):
    @nki.jit
    def several(x):
        for _ in nl.affine_range(2):
            pass
        for _ in nl.dynamic_range(2):
            pass
        for _ in nl.dynamic_range(3):
            pass
        return x

    monkeypatch.setenv(VERSION_VARIABLE, "0.7")
    with (
        pytest.warns(UserWarning, match="NKI-STRICT-DEPRECATED") as warned,
        pytest.raises(NkiError, match=r"1 more: nki-hlo check --nki 0\.7"),
    ):
        simulate(several)(ARRAYS[0])
    assert [Path(warning.filename).name for warning in warned] == [Path(__file__).name]


def test_a_kernel_without_a_source_is_traced_with_a_warning(monkeypatch):
    names = {"nl": nl}
    exec("def copied(x):\n    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
         "    nl.store(out, nl.load(x))\n    return out\n", names)  # fmt: skip
    monkeypatch.setenv(VERSION_VARIABLE, "0.7")
    with pytest.warns(UserWarning, match="rules of NKI 0.7 are not applied"):
        np.testing.assert_array_equal(simulate(names["copied"])(ARRAYS[0]), ARRAYS[0])


def test_a_version_without_rules_is_refused(monkeypatch):
    monkeypatch.setenv(VERSION_VARIABLE, "0.5")
    with pytest.raises(NkiError, match=r"0\.6, 0\.7") as caught:
        simulate(looped)(ARRAYS[0])
    assert caught.value.code == "NKI-VERSION"


SCRIPT = """\
import numpy as np, nki, nki.isa as nisa, nki.language as nl


@nki.jit
def looped(x):
    t = nl.load(x)
    for _ in nl.dynamic_range(3):
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out


if __name__ == "__main__":
    print(looped(np.ones((4, 8), np.float32)).sum())
"""


@pytest.fixture
def script(tmp_path, monkeypatch, python_environment):
    for name, value in python_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_commands_that_trace_follow_the_setting(script, capfd):
    words = ["script.py", "--kernel", "looped", "--arg", "x=float32[4,8]"]
    assert main(["check", *words]) == 0
    (script.parent / "nki-hlo.toml").write_text('nki = "0.7"\n')
    assert main(["check", *words]) != 0
    assert main(["run", "script.py"]) != 0
    printed = capfd.readouterr()
    assert (printed.out + printed.err).count("NKI-STRICT-REMOVED") == 2
    assert main(["run", "--nki", "0.6", "script.py"]) == 0
    assert main(["extract", "--nki", "0.5", "script.py"]) == 2


def test_the_strict_mode_follows_the_setting(script, capsys):
    source = "import nki\n\n\n@nki.jit\ndef f(x):\n    try:\n        return x\n    finally:\n        pass\n"
    script.write_text(source)
    assert main(["check", "script.py", "--strict"]) == 0
    (script.parent / "nki-hlo.toml").write_text('nki = "0.6"\n')
    capsys.readouterr()
    assert main(["check", "script.py", "--strict", "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["code"] == "NKI-STRICT-TRY"
    assert main(["check", "script.py", "--strict", "--nki", "0.7"]) == 0


def test_a_setting_without_rules_is_refused(script, capsys):
    (script.parent / "nki-hlo.toml").write_text('nki = "0.5"\n')
    assert main(["check", "script.py", "--strict"]) == 2
    assert "HLO-CONFIGURATION" in capsys.readouterr().err
