"""jaxlib in a process of its own, asked over pipes: it aborts on some modules, and takes all memory
on others.

The server's half is run by any Python that has a jaxlib (0.4.38 or later); it needs nothing of
this project except for ``run``. A message is a pickle behind its length.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 60.0
MEMORY = 12 << 30


class Server:
    """A jaxlib that is started again when it died or hung.

    Args:
        python: the interpreter that has the jaxlib.
        seconds: what one answer may take.
    """

    def __init__(self, python: str = sys.executable, seconds: float = SECONDS) -> None:
        self.python = python
        self.seconds = seconds
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, what: str, *arguments: Any) -> tuple[bool, Any]:
        """(True, the answer), or (False, why there is none)."""
        if self.process is None or self.process.poll() is not None:
            self._start()
        assert self.process is not None and self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(_packed((what, arguments)))
            self.process.stdin.flush()
            return self._answer()
        except (BrokenPipeError, EOFError):
            code = self.process.wait()
            self.process = None
            return False, f"jaxlib died of signal {-code}" if code < 0 else f"jaxlib ended: {code}"
        except TimeoutError:
            self.close()
            return False, f"jaxlib took more than {self.seconds:.0f} s"

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _start(self) -> None:
        environment = dict(
            os.environ, PYTHONPATH=str(ROOT), JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3"
        )
        self.process = subprocess.Popen(
            [self.python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip

    def _answer(self) -> tuple[bool, Any]:
        (length,) = struct.unpack("<Q", self._read(8))
        return pickle.loads(self._read(length))

    def _read(self, size: int) -> bytes:
        assert self.process is not None and self.process.stdout is not None
        stream = self.process.stdout.fileno()
        parts: list[bytes] = []
        while size:
            if not select.select([stream], [], [], self.seconds)[0]:
                raise TimeoutError
            chunk = os.read(stream, min(size, 1 << 20))
            if not chunk:
                raise EOFError
            parts.append(chunk)
            size -= len(chunk)
        return b"".join(parts)


def _packed(value: Any) -> bytes:
    data = pickle.dumps(value, protocol=4)
    return struct.pack("<Q", len(data)) + data


# -- the half with jaxlib ----------------------------------------------------------------------------


def _hlo() -> Any:
    """The module that holds HloModule; it moved twice."""
    import jaxlib  # noqa: F401

    for name in ("jaxlib._hlo", "jaxlib._jax", "jaxlib.xla_extension"):
        try:
            module = __import__(name, fromlist=["HloModule"])
        except ImportError:
            continue
        if hasattr(module, "HloModule"):
            return module
    raise ImportError("no jaxlib with HloModule")


def _text_of(hlo: Any, module: Any, preset: str) -> str:
    options = getattr(hlo.HloPrintOptions, preset)() if preset else hlo.HloPrintOptions()
    options.print_large_constants = True
    return module.to_string(options)


def parse(text: str) -> tuple[bytes, str]:
    """The proto and the print of a text."""
    hlo = _hlo()
    module = hlo.hlo_module_from_text(text)
    return module.as_serialized_hlo_module_proto(), _text_of(hlo, module, "")


def show(data: bytes, preset: str = "") -> tuple[bytes, str]:
    """The proto written again, and its print."""
    hlo = _hlo()
    module = hlo.HloModule.from_serialized_hlo_module_proto(data)
    return module.as_serialized_hlo_module_proto(), _text_of(hlo, module, preset)


def run(data: bytes, inputs: list[Any], tokens: list[int]) -> list[Any]:
    """Run the module on the CPU; ``tokens`` are the numbers of results that are no arrays."""
    from hlo_tools.evaluate.jaxlib_child import execute

    return execute(data, inputs, tokens)


def run_devices(
    data: bytes, inputs: list[list[Any]], partitions: int, tokens: list[int]
) -> list[list[Any]]:
    """The same on several devices, by device."""
    from hlo_tools.evaluate.jaxlib_child import execute_devices

    return execute_devices(data, inputs, partitions, tokens)


def version() -> str:
    import jaxlib

    return jaxlib.__version__


def main() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while head := sys.stdin.buffer.read(8):
        (length,) = struct.unpack("<Q", head)
        what, arguments = pickle.loads(sys.stdin.buffer.read(length))
        try:
            reply = (True, globals()[what](*arguments))
        except Exception as error:
            reply = (False, f"{type(error).__name__}: {error}")
        answers.write(_packed(reply))
        answers.flush()


if __name__ == "__main__":
    main()
