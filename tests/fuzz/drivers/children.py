"""Processes that answer requests, so that a crash or a hang of one is an answer too."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import select
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "Child", "failed", "serve"]

ROOT = Path(__file__).resolve().parents[3]
PATHS = [str(ROOT), str(ROOT / "compat")]
COMMAND = "import sys; sys.path[:0] = {paths!r}; from {module} import {function}; {function}()"


class Child:
    """A process that runs ``module:function``, a loop of :func:`serve`; started when first asked.

    Args:
        entry: ``module:function``.
        variables: more of its environment.
        silent: seconds after which a request counts as hanging.
    """

    def __init__(
        self, entry: str, variables: dict[str, str] | None = None, silent: float = 120.0
    ) -> None:
        self._entry = entry
        self._variables = variables or {}
        self._silent = silent
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: object) -> dict[str, Any]:
        """The answer; an entry ``error`` when it raised (with ``code`` and ``trace``), died or hangs."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], self._silent)
            if not ready:
                self.stop()
                return {"error": f"hangs for {self._silent:.0f} s", "code": "", "trace": ""}
            return pickle.load(process.stdout)
        except (EOFError, BrokenPipeError):
            status = self._process.wait() if self._process else 0
            self.stop()
            return {"error": f"the process died ({status})", "code": "", "trace": ""}

    def _start(self) -> subprocess.Popen[bytes]:
        module, function = self._entry.split(":")
        environment = {
            **os.environ,
            "NKI_HLO_UNGUARDED": "1",  # an exception that is a bug of ours is a fault
            **self._variables,
            "PYTHONPATH": os.pathsep.join(PATHS),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMAND.format(paths=PATHS, module=module, function=function)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
        return self._process

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def serve(answer: Callable[[Any], dict[str, Any]], *, valid: bool = False) -> None:
    """Answer requests from standard input, until it ends; ``valid`` as for :func:`failed`."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            reply = answer(request)
        except Exception as error:
            reply = failed(error, valid=valid)
        pickle.dump(reply, out)
        out.flush()


DEVICE_CODE = re.compile(r"\[((?:HLO|NEFF|NKI)-(?!INTERNAL)[A-Z0-9-]+)\]")
"""A refusal in an error of JAX's, whose text is all that the device can give."""
OWN_FAULTS = frozenset({"HLO-PASS-MODULE", "HLO-PASS-ENSURES"})
"""Codes that no valid module may have."""


def failed(error: Exception, *, valid: bool = False) -> dict[str, Any]:
    """An exception as an answer; ``code`` is empty unless it is one of ours.

    Args:
        error: what was raised.
        valid: the module is valid, so that calling it invalid is a fault, too.
    """
    code = getattr(error, "code", "")
    if not code and type(error).__name__ == "JaxRuntimeError":  # the device's, as text
        code = "".join(DEVICE_CODE.findall(str(error))[:1])
    if valid and (type(error).__name__ == "HloVerifyError" or code in OWN_FAULTS):
        code = ""
    if valid and code == "NKI-EXEC" and "divisor other than zero" not in str(error):
        code = ""  # an exception of an instruction's meaning, which a rule should have kept away
    return {
        "error": f"{type(error).__name__}: {error}",
        "code": code if isinstance(code, str) else "",
        "trace": traceback.format_exc(),
    }
