"""Write the modules of real JAX programs, before and after optimisation, as text and protos.

Usage: PYTHON -m tests.suites.corpus.dump_programs FOLDER [NAME ...]

Runs with any JAX from 0.4.38 on; the Python needs nothing of this project. XLA's own dump writes
``module_<n>.<name>.{before,..._after}_optimizations.{txt,hlo.pb}`` and snapshots; beside them every
program's lowered module stands as ``<name>.lowered.{pb,txt}``, and in short text. The programs are
in ``programs/``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1] if __name__ == "__main__" else ".").absolute()
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    f"--xla_dump_to={FOLDER} --xla_dump_hlo_as_text --xla_dump_hlo_as_proto "
    "--xla_dump_hlo_snapshots --xla_dump_large_constants --xla_force_host_platform_device_count=8"
)

import jax  # noqa: E402

from tests.suites.corpus.programs import devices, models, numerics, operations, users  # noqa: E402, F401
from tests.suites.corpus.programs.table import PROGRAMS  # noqa: E402

COPIED_SUFFIXES = (
    "optimizations.txt",
    "optimizations.hlo.pb",
    ".lowered.pb",
    ".lowered.txt",
    ".short.txt",
)
FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""For modules whose machine code would take minutes; it comes after the passes on HLO."""


def dump(name: str) -> None:
    """Lower, compile and run one program (not with donations or tokens: XLA's snapshot dies of them)."""
    function, arguments, options = PROGRAMS[name]()
    large = options.pop("large", False)
    runs = options.pop("runs", not large and "donate_argnums" not in options)
    jax.config.update("jax_enable_x64", options.pop("x64", False))
    jitted = function if options.pop("jit", True) is False else jax.jit(function, **options)
    lowered = jitted.lower(*arguments)
    module = lowered.compiler_ir("hlo").as_hlo_module()
    (FOLDER / f"{name}.lowered.pb").write_bytes(module.as_serialized_hlo_module_proto())
    (FOLDER / f"{name}.lowered.txt").write_text(module.to_string())
    short = _print_options().short_parsable()
    (FOLDER / f"{name}.short.txt").write_text(module.to_string(short))
    lowered.compile(compiler_options=FAST if large else None)
    if runs:
        jax.block_until_ready(jitted(*arguments))


def _print_options() -> Any:
    for location in ("_hlo", "_jax", "xla_extension"):
        try:
            return __import__(f"jaxlib.{location}", fromlist=["x"]).HloPrintOptions
        except (ImportError, AttributeError):
            continue
    raise ImportError("no HloPrintOptions")


def tidy() -> int:
    """Leave only modules; the number of files."""
    for path in FOLDER.iterdir():
        if not path.name.endswith(COPIED_SUFFIXES) and ".snapshot." not in path.name:
            path.unlink() if path.is_file() else None
    return sum(1 for path in FOLDER.iterdir() if path.is_file())


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    names = sys.argv[2:] or list(PROGRAMS)
    failed = 0
    for name in names:
        try:
            dump(name)
        except Exception as error:  # an older JAX lacks something: say what, go on
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
    print(f"jax {jax.__version__}: {len(names) - failed} programs, {tidy()} files in {FOLDER}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
