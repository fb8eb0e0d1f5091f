"""Runs a script as Python itself would, with the compatible names at the end of the path.

``python launcher.py script.py ARGUMENTS``: the script is ``__main__``, has its own ``sys.argv``
and its own folder first on the path, and a failure shows its own traceback alone. This file
imports nothing of the project: the script decides what is loaded.
"""

from __future__ import annotations

import builtins
import os
import sys
import types

__all__ = ["main", "roots"]


def roots() -> list[str]:
    """The folders of this project's packages and of the compatible names."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    names = [os.path.join(root, name) for name in ("compat", "nki_hlo_compat")]
    return [root, *(path for path in names if os.path.isdir(os.path.join(path, "jax_plugins")))]


def _run(script: str) -> None:
    with open(script, "rb") as file:
        source = file.read()
    script = os.path.abspath(script)  # what Python calls it, too
    module = types.ModuleType("__main__")
    module.__file__ = script
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    exec(compile(source, script, "exec", dont_inherit=True), module.__dict__)


def main() -> int:
    """Run ``sys.argv[1]``; the exit status that Python would have."""
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    sys.path.extend(path for path in roots() if path not in sys.path)
    try:
        _run(script)
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        error.__traceback__ = trace
        sys.excepthook(type(error), error, trace)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
