"""A profile as one HTML page: data, style and program in it, nothing fetched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import cast

from hlo_tools._gc import no_collection
from neff.profile.advice import advice_of, advice_rows
from neff.profile.analysis import Analysis, analysis_of
from neff.profile.memory import Holding, memory_document
from neff.profile.page.columns import columns_of
from neff.profile.page.curves import counter_rows, loop_rows
from neff.profile.roofline import roofline_document
from neff.profile.summary import summary
from neff.profile.table import Profile
from nki_lang.base.plain_files import MAX_SOURCE_BYTES, read_plain

__all__ = ["render_page"]

PROGRAM = (
    "data.js", "colours.js", "curves.js", "timeline.js", "details.js", "tables.js", "source.js", "memory.js",
    "roofline.js", "main.js",
)  # fmt: skip
"""Parts of the page's program, in order."""

MAX_EVENTS_FOR_ADVICE = 20_000
"""The advice for more events takes too long for a page, and is computed only on request."""

_MAX_HOLDINGS = 20_000
"""Tensors of the memory map; of more the largest are shown."""

ROLES = ("old", "new")


def render_page(
    profiles: Sequence[Profile | Analysis], *, root: Path = Path(), is_comparison: bool = False
) -> str:
    """The page of one profile, of several programs, or of an old and a new one side by side.

    Args:
        profiles: in the order in which they are shown.
        root: where source files are searched for.
        is_comparison: they are an old and a new profile.
    """
    folder = files("neff.profile.page")
    page = (folder / "viewer.html").read_text(encoding="utf-8")
    style = (folder / "style.css").read_text(encoding="utf-8")
    program = "\n".join((folder / name).read_text(encoding="utf-8") for name in PROGRAM)
    roles = ROLES if is_comparison else tuple(str(number) for number in range(1, len(profiles) + 1))
    with no_collection():
        documents = [
            {"role": role, **_document(analysis_of(profile), root)}
            for role, profile in zip(roles, profiles, strict=True)
        ]
    data = json.dumps(
        {"profiles": documents, "comparison": is_comparison},
        ensure_ascii=False,
        separators=(",", ":"),
    )
    # Data stands in a script element: nothing in it may end that element.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return (
        page.replace("/*STYLE*/", style).replace("/*PROGRAM*/", program).replace("/*DATA*/", data)
    )


def _document(analysis: Analysis, root: Path) -> dict[str, object]:
    profile, columns, document = analysis.profile, columns_of(analysis), summary(analysis)
    lines = [
        line
        for site in profile.sites
        for line in (*((site.place,) if site.line else ()), *site.frames)
    ]
    count = sum(len(core.events) for core in profile.estimate.cores)
    return {
        "name": profile.name,
        **{
            name: document[name]
            for name in (
                "target", "statistic", "total_us", "low_us", "high_us", "measured_share", "complete",
            )
        },
        "unit_ns": columns.unit_ns,
        "count": columns.count,
        "tracks": columns.tracks,
        "opcodes": columns.opcodes,
        "sites": profile.sites,
        "packed": columns.packed,
        "counters": counter_rows(analysis, columns.unit_ns),
        "loops": loop_rows(profile, columns.unit_ns),
        "summary": {name: document[name] for name in ("by", "engines", "critical_path")},
        "memory": _memory(profile, analysis.held),
        "roofline": roofline_document(analysis),
        "advice": advice_rows(advice_of(profile)) if count <= MAX_EVENTS_FOR_ADVICE else None,
        "sources": _sources({line.rpartition(":")[0] for line in lines}, root),
    }  # fmt: skip


def _memory(profile: Profile, holding_list: list[Holding]) -> dict[str, object]:
    document = memory_document(profile, holding_list)
    rows = cast("list[dict[str, int]]", document["holdings"])
    if len(rows) > _MAX_HOLDINGS:
        largest = sorted(rows, key=lambda row: -row["partitions"] * row["bytes_per_partition"])
        document["holdings"] = largest[:_MAX_HOLDINGS]
    return document


def _sources(names: set[str], root: Path) -> dict[str, list[str]]:
    """Return the lines of the readable source files as HTML."""
    highlighted: dict[str, list[str]] = {}
    for name in sorted(names):
        path = (root / name).resolve()
        # The name comes from the NEFF and is not trusted.
        if not path.is_relative_to(root.resolve()):
            continue
        try:
            text = read_plain(path, MAX_SOURCE_BYTES).decode().replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError):
            continue
        highlighted[name] = _highlighted(text)
    return highlighted


def _highlighted(text: str) -> list[str]:
    try:
        pygments = import_module("pygments")  # optional, and without types
        formatter = import_module("pygments.formatters").HtmlFormatter(nowrap=True)
        lexer = import_module("pygments.lexers").PythonLexer(stripnl=False, ensurenl=False)
    except ImportError:
        return [escape(line) for line in text.split("\n")]
    html: str = pygments.highlight(text, lexer, formatter)
    return html.split("\n")
