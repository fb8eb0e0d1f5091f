"""Print a digest of drawn examples: ``python -m tests.architecture.drawn_examples PROFILE [MODULE ...]``.

The modules are imported before the examples are drawn.
"""

from __future__ import annotations

import hashlib
import importlib
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

import tests.conftest  # noqa: F401  # registers the profiles

DIGEST = hashlib.sha256()


def main() -> None:
    settings.load_profile(sys.argv[1])
    for module in sys.argv[2:]:
        importlib.import_module(module)

    @given(st.tuples(st.integers(), st.floats(), st.text(), st.binary()))
    def draw(values: tuple[object, ...]) -> None:
        DIGEST.update(repr(values).encode("utf-8", "surrogatepass"))

    draw()
    print(DIGEST.hexdigest())


if __name__ == "__main__":
    main()
