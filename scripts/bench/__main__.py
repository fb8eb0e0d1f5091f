"""List the benchmarks, or run one.

python -m scripts.bench [NAME] [OPTIONS OF THE BENCHMARK]

Without a name the benchmarks are listed, each with the first sentence of its module. NAME is the
file without ``bench_`` and ``.py``; ``python -m scripts.bench NAME --help`` explains its options.
"""

from __future__ import annotations

import ast
import runpy
import sys
from difflib import get_close_matches
from pathlib import Path

__all__ = ["benchmarks", "main", "summary"]

FOLDER = Path(__file__).parent
OTHER_FILES = ("build_sweep.py", "dump_models.py")
"""Programs to run whose names do not start with ``bench_``."""


def benchmarks() -> dict[str, Path]:
    """Return the file of each benchmark by name."""
    files = [*FOLDER.glob("bench_*.py"), *(FOLDER / name for name in OTHER_FILES)]
    return {file.stem.removeprefix("bench_"): file for file in sorted(files)}


def summary(file: Path) -> str:
    """Return the first line of a file's docstring; the file is not imported."""
    return (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]


def main(arguments: list[str]) -> int:
    """List the benchmarks, or run the named one as ``__main__`` with the other arguments."""
    files = benchmarks()
    if not arguments or arguments[0] in ("-h", "--help"):
        width = max(map(len, files))
        for name, file in files.items():
            print(f"{name:<{width}}  {summary(file)}")
        return 0
    name, *options = arguments
    if name not in files:
        similar = get_close_matches(name, files, 1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        print(f"there is no benchmark {name!r}{hint}", file=sys.stderr)
        return 2
    sys.argv = [str(files[name]), *options]
    runpy.run_module(f"scripts.bench.{files[name].stem}", run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
