"""The recipes for users' CI run, step by step, on a repository that the test makes.

No runner is here: the test reads ``.ci/github/action.yml`` and ``.ci/gitlab.yml`` as runners do and
runs their shell steps, with the few expressions that they contain evaluated.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / ".ci" / "github"

SCRIPT = """\
import numpy as np
import nki, nki.isa as nisa, nki.language as nl


@nki.jit
def twice(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=x)
    return out


twice(np.ones((64, 128), np.float32))
"""
SLOWER = "    lost = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)\n" + "".join(
    "    nisa.memset(dst=lost, value=0)\n    nisa.tensor_copy(dst=lost, src=x)\n" for _ in range(12)
)
"""Lines of a pull request that nobody needs."""


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a base and, checked out, a slower head; its scripts are in ``src``."""
    folder = tmp_path / "repository"
    (folder / "src").mkdir(parents=True)
    script = folder / "src" / "twice.py"
    git(folder, "init", "-q")
    script.write_text(SCRIPT)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "base")
    script.write_text(
        SCRIPT.replace("    nisa.dma_copy(dst=out", f"{SLOWER}    nisa.dma_copy(dst=out")
    )
    limits = '[tool.nki-neff.budgets]\n"twice*" = { max-latency = "1ns" }\n'
    (folder / "src" / "pyproject.toml").write_text(limits)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "head")
    return folder


@dataclass
class Runner:
    """A runner of the shell steps of a composite GitHub action."""

    workspace: Path
    temporary: Path
    inputs: dict[str, str]
    event: str = "pull_request"
    outcomes: dict[str, str] = field(default_factory=dict[str, str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    said: dict[str, str] = field(default_factory=dict[str, str])
    summary: str = ""

    def run(self) -> None:
        action = yaml.safe_load((ACTION / "action.yml").read_text())
        passed = self.inputs
        self.inputs = {}
        for name, entry in action["inputs"].items():
            default = entry.get("default", "")
            self.inputs[name] = passed.get(name, self.text(str(default)))
        assert not set(passed) - set(self.inputs)
        for step in action["runs"]["steps"]:
            name = step.get("id", "")
            expected = "if" not in step or bool(self.value(step["if"]))
            failed = "failure" in self.outcomes.values()
            if "run" not in step:
                assert step["uses"].startswith("actions/upload-artifact@")
            elif expected and ("if" in step or not failed):
                self.outcomes[name] = self.step(name, step)
            else:
                self.outcomes[name] = "skipped"

    def step(self, name: str, step: Mapping[str, str]) -> str:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "what comes from outside goes through the environment"
        output, summary, script = (
            self.temporary / file_name for file_name in ("output", "summary", "script")
        )
        script.write_text(step["run"])
        output.touch()
        environment = {
            **os.environ,
            **{key: self.text(text) for key, text in dict(step.get("env", {})).items()},
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_WORKSPACE": str(self.workspace),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.workspace / self.text(step.get("working-directory", ".")),
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        for line in output.read_text().splitlines():
            key, _, value = line.partition("=")
            self.outputs[f"steps.{name}.outputs.{key}"] = value
        output.unlink()
        self.said[name] = done.stdout
        self.summary = summary.read_text() if summary.exists() else ""
        return "failure" if done.returncode else "success"

    def text(self, text: str) -> str:
        """A text with its expressions put in."""
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda match: str(self.value(match[1])), text)

    def value(self, text: str) -> object:
        """An expression, with the operators and names that the action uses."""
        inner = text.removeprefix("${{").removesuffix("}}").strip()
        by_name = {
            "github.event.pull_request.base.sha": "",
            "github.action_path": str(ACTION),
            "github.event_name": self.event,
            "runner.temp": str(self.temporary),
            **{f"inputs.{name}": value for name, value in self.inputs.items()},
            **{f"steps.{name}.outcome": value for name, value in self.outcomes.items()},
            **self.outputs,
        }
        python = inner.replace("!cancelled()", "True").replace("&&", " and ").replace("||", " or ")
        names = r"'[^']*'|\b(?:github|inputs|steps|runner)\.[\w.-]+"
        python = re.sub(
            names, lambda match: match[0] if match[0][0] == "'" else repr(by_name[match[0]]), python
        )
        return eval(python, {"__builtins__": {}})


def annotations(text: str) -> Iterator[tuple[str, str, int, str]]:
    """Level, file, line and message of what becomes an annotation of GitHub's."""
    matchers = json.loads((ACTION / "matcher.json").read_text())["problemMatcher"]
    for line in text.splitlines():
        command = re.match(r"::(error|warning|notice) file=([^,:]+),line=(\d+)[^:]*::(.+)", line)
        if command:
            yield command[1], command[2], int(command[3]), command[4]
        for matcher in matchers:
            (pattern,) = matcher["pattern"]
            if match := re.match(pattern["regexp"], line):
                level = match[pattern["severity"]] if "severity" in pattern else matcher["severity"]
                position = match[pattern["file"]], int(match[pattern["line"]])
                yield level, *position, match[pattern["message"]]


def test_action_on_a_pull_request(repository: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "runner"
    temporary.mkdir()
    inputs = {
        "scripts": "twice.py", "target": "trn2", "working-directory": "src", "install": "none",
        "python": sys.executable, "base": git(repository, "rev-parse", "HEAD~1"),
        "cache": str(tmp_path / "store"),
    }  # fmt: skip
    runner = Runner(repository, temporary, inputs)
    runner.run()
    assert runner.outcomes == {
        "prepare": "success", "extract": "success", "verify": "success", "lint": "success",
        "check": "failure", "build": "success", "budget": "failure", "base": "success",
        "diff": "success",
    }, runner.said  # fmt: skip
    lines = (repository / "src/twice.py").read_text().splitlines()
    unused = [number for number, text in enumerate(lines, 1) if "tensor_copy(dst=lost" in text]
    assert [row[:3] for row in annotations(runner.said["check"])] == [
        ("error", "src/twice.py", line) for line in unused
    ]
    ((level, file, _, message),) = annotations(runner.said["budget"])
    assert (level, file) == ("error", "src/twice.py") and "latency (twice*)" in message
    out = Path(runner.text("${{ steps.prepare.outputs.out }}"))
    (neff,) = (out / "neffs").glob("*.neff")
    assert (out / "base-neffs" / neff.name).exists()
    (row,) = [row for row in runner.summary.splitlines() if row.startswith("| `")]
    assert f"`{neff.name}` | changed" in row and re.search(r"µs \(\+[\d.]+%\) \|$", row)
    assert runner.summary.startswith("### NKI kernels") and "```diff" in runner.summary
    cases = [*ElementTree.parse(out / "reports" / "builds.xml").iter("testcase")]
    assert len(cases) == 1 and not [*cases[0].iter("failure")]
    assert json.loads((out / "reports" / "lint.sarif").read_text())["version"] == "2.1.0"
    (change,) = json.loads((out / "reports" / "diff.json").read_text())["neffs"]
    assert change["after"]["estimated_time_us"] > change["before"]["estimated_time_us"]
    assert not (tmp_path / "store").exists()  # a pull request writes nothing there


def test_a_kernel_that_is_refused_is_annotated(repository: Path, tmp_path: Path) -> None:
    script = repository / "src" / "twice.py"
    script.write_text(SCRIPT.replace("buffer=nl.sbuf", "buffer=nl.hbm"))
    inputs = {"scripts": "src/twice.py", "install": "none", "python": sys.executable,
              "check-options": "none", "artifact": "none"}  # fmt: skip
    runner = Runner(repository, tmp_path, inputs, event="push")
    runner.run()
    assert runner.outcomes["extract"] == "failure"
    assert {runner.outcomes[name] for name in ("lint", "build", "base", "diff")} == {"skipped"}
    ((level, file, line, _),) = annotations(runner.said["extract"])
    assert (level, Path(file).name, line) == ("error", "twice.py", 10)


@pytest.mark.slow("the GitHub action's test covers the commands; this one the template's shell")
def test_gitlab_template(
    repository: Path, tmp_path: Path, python_environment: dict[str, str]
) -> None:
    job = yaml.safe_load((ROOT / ".ci" / "gitlab.yml").read_text())[".nki"]
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, module in (("nki-hlo", "hlo_tools.cli"), ("nki-neff", "neff.cli")):
        (commands / name).write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n'
        )
        (commands / name).chmod(0o755)
    (repository / "pyproject.toml").write_text((repository / "src/pyproject.toml").read_text())
    variables = {name: str(value) for name, value in job["variables"].items()}
    environment = {
        **python_environment,
        **variables,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "CI_PROJECT_DIR": str(repository),
        "NKI_SCRIPTS": "src/twice.py",
        "NKI_BASE": git(repository, "rev-parse", "HEAD~1"),
        "NKI_HLO_TARGET": "trn2",
    }
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(job["script"])],
        cwd=repository, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr  # the unused tile, and the budget
    assert "EXCEEDED" in done.stdout
    artifacts = [repository / path for path in job["artifacts"]["paths"]]
    artifacts += [repository / path for path in job["artifacts"]["reports"].values()]
    assert all(path.exists() for path in artifacts)
    rows = json.loads((repository / "nki/codequality.json").read_text())
    unused = (repository / "src/twice.py").read_text().count("tensor_copy(dst=lost")
    assert (
        unused
        and [(row["check_name"], row["location"]["path"]) for row in rows]
        == [("NKI-UNUSED", "src/twice.py")] * unused
    )
    assert len({row["fingerprint"] for row in rows}) == len(rows)
    assert "| changed |" in (repository / "nki/diff.md").read_text()


HOOKED = {
    "nki-check-strict": (
        "kernels.py",
        SCRIPT,
        SCRIPT.replace("    return out", "    nl.dynamic_range(2)\n    return out"),
    ),
    "nki-verify": (
        "m.hlo",
        "HloModule m\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n",
        "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT n = f32[3] negate(p)\n}\n",
    ),
    "nki-lint": (
        "m.hlo",
        "HloModule m\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n",
        "HloModule m\nENTRY e {\n  p = c64[2] parameter(0)\n  ROOT n = c64[2] negate(p)\n}\n",
    ),
}


@pytest.mark.parametrize("name", HOOKED)
def test_pre_commit_hook(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hlo_tools.cli import main

    hooks = {
        hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    }
    assert set(hooks) == set(HOOKED)
    file, good, bad = HOOKED[name]
    program, *words = shlex.split(hooks[name]["entry"])
    assert program == "nki-hlo" and hooks[name]["language"] == "python"
    assert re.search(hooks[name].get("files", r"\.py$"), file)
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text(good)
    (tmp_path / f"plain_{file}").write_text("import os\n" if file.endswith(".py") else good)
    assert main([*words, file, f"plain_{file}"]) == 0
    (tmp_path / file).write_text(bad)
    assert main([*words, f"plain_{file}", file]) == 1
