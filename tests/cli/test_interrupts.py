"""Ctrl-C while a command is being imported: exit code 130 and no traceback, in any import.

No signal is sent: an import raises ``KeyboardInterrupt``, as Python does when the signal arrives
while it runs. Each case is a fork of one process in which nothing of ours is imported yet.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CHILD = """
import json, os, sys

package, function, words = sys.argv[1], sys.argv[2], sys.argv[3:]
entries = {package[:at] for at in range(len(package) + 1) if package[at : at + 1] in (".", "")}
written = open(os.devnull)


class Interrupted:
    def __init__(self, number):
        self.left = number

    def find_spec(self, name, path=None, target=None):
        if name not in entries:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return None


def case(number):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(writing, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        finder = Interrupted(number)
        sys.meta_path.insert(0, finder)
        sys.argv = ["command", *words]
        code = 99
        try:
            __import__(package)
            at_start = finder.left
            try:
                code = getattr(sys.modules[package], function)() or 0
            except SystemExit as end:
                code = end.code or 0
            if at_start != number:
                code = 98  # it imported something before its function began
            elif finder.left > 0:
                code = 97  # there are fewer imports
        except KeyboardInterrupt:
            os.write(2, b"Traceback")
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    told = b""
    while piece := os.read(reading, 65536):
        told += piece
    os.close(reading)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told.decode()


rows, number = [], 1
while number < 3000:
    code, told = case(number)
    if code == 97:
        break
    rows.append([number, code, told])
    number += 1 if number < 12 else 97
print(json.dumps(rows))
"""


@pytest.mark.parametrize(
    ("package", "function", "words"),
    [
        ("hlo_tools.cli", "main", ["doctor", "--json"]),
        ("neff.cli", "main", ["explain", "NEFF-HASH"]),
        ("neff.cli.vendor_commands", "neuronx_cc", ["list-operators", "--framework=XLA"]),
        ("neff.cli.vendor_commands", "spike_run", ["--help"]),
    ],
)
def test_an_interrupt_in_any_import(
    package: str, function: str, words: list[str], python_environment: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, package, function, *words],
        env=python_environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) > 12
    assert {code for _, code, _ in rows} == {130}, rows
    assert {message.strip() for _, _, message in rows} <= {"", "interrupted"}, rows
