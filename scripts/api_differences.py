"""List where our public names differ from an API index of the vendor's documentation.

Pass a checkout of aws-neuron/aws-neuron-sdk, or a folder of saved pages (HTML)::

    python -m scripts.api_differences PATH [--nki 0.6] [--json differences.json]

Read are the stubs ``nki/api/nki/**/__init__.py`` (names, parameters, defaults, enumeration members,
methods), the summaries in ``nki/api/*.rst`` (names), and the signatures of HTML pages. Listed are names
that we lack, parameters and defaults that differ, and with ``--ours`` names of ours that the index lacks.
Names that NKI has only since a later version than ``--nki`` are left out, and differences that
``api_index/explained.py`` explains are listed with their reason. The exit code is 1 when a difference
has no explanation, and 2 when the path has no index.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from nki_lang.base.versions import NEWEST_VERSION, VERSIONS
from scripts.api_index.comparing import Difference, compared
from scripts.api_index.reading import documented_entries

MODULES = ("nki", "nki.language", "nki.isa", "nki.collectives", "nki.compiler")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "path", type=Path, help="a checkout of the documentation, or a folder of pages"
    )
    parser.add_argument(
        "--nki", choices=VERSIONS, default=NEWEST_VERSION, help="the index's version"
    )
    parser.add_argument("--ours", action="store_true", help="also list names that the index lacks")
    parser.add_argument("--json", type=Path, help="write every difference to this file")
    options = parser.parse_args()
    entries = documented_entries(options.path)
    if not entries:
        print(f"{options.path} has no API index: no stubs, no summaries, no signatures in pages",
              file=sys.stderr)  # fmt: skip
        return 2
    ours = {name: import_module(name) for name in MODULES}
    differences = list(compared(entries, ours, version=options.nki, ours_too=options.ours))
    for difference in differences:
        print(difference)
    unexplained = [difference for difference in differences if not difference.explanation]
    print(f"{len(entries)} names in the index, {len(differences)} differences, "
          f"{len(unexplained)} without an explanation")  # fmt: skip
    if options.json:
        write_json(differences, options.json)
    return int(bool(unexplained))


def write_json(differences: list[Difference], path: Path) -> None:
    """Write the differences as a list of objects."""
    rows = [asdict(difference) for difference in differences]
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
