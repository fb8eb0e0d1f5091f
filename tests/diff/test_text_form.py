"""A message and the text of the same module have no differences but those that text cannot hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_tools import load
from hlo_tools.cli import main
from hlo_tools.text import PrintOptions

TEXT = b"""HloModule m
ENTRY e {
  x = f32[12] parameter(0)
  c = f32[12] constant({1,2,3,4,5,6,7,8,9,10,11,12})
  ROOT a = f32[12] add(x, c)
}
"""


def write_pair(folder: Path, *, large_constants: bool) -> tuple[str, str]:
    """A message with a device assignment, and its text."""
    module = load(TEXT)
    module.proto.device_assignment.replica_count = 1
    module.touch()
    module.save(folder / "m.pb")
    text = module.to_text(PrintOptions(large_constants=large_constants))
    (folder / "m.txt").write_text(text)
    return str(folder / "m.pb"), str(folder / "m.txt")


@pytest.mark.parametrize("large_constants", [True, False])
@pytest.mark.parametrize("turned", [False, True])
def test_message_and_text_are_equal(
    large_constants: bool, turned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = write_pair(tmp_path, large_constants=large_constants)
    assert main(["diff", *(reversed(pair) if turned else pair)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "text does not hold it: device_assignment" in captured.err
    assert ("literal" in captured.err or "value" in captured.err) == (not large_constants)


def test_other_differences_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message, text = write_pair(tmp_path, large_constants=True)
    content = Path(text).read_text()
    Path(text).write_text(content.replace("12}", "13}"))
    assert main(["diff", message, text]) == 1
    assert "12" in capsys.readouterr().out
    Path(text).write_text(content.replace("add(", "multiply("))
    assert main(["diff", text, message]) == 1
    assert "multiply" in capsys.readouterr().out


def test_two_messages_are_compared_in_full(tmp_path: Path) -> None:
    message, _ = write_pair(tmp_path, large_constants=True)
    load(TEXT).save(tmp_path / "other.pb")
    assert main(["diff", message, str(tmp_path / "other.pb")]) == 1
    load(Path(message)).save(tmp_path / "other.json")
    assert main(["diff", message, str(tmp_path / "other.json")]) == 0
