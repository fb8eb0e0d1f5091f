"""The documents of a profile in a folder."""

from __future__ import annotations

import json
from pathlib import Path

from neff.errors import NeffError
from neff.profile.analysis import Analysis, analysis_of
from neff.profile.page import render_page
from neff.profile.perfetto import write_trace
from neff.profile.table import Profile
from nki_lang.base.atomic import atomic_file
from nki_lang.base.plain_files import check_path, shown

__all__ = ["write_files"]


def write_files(
    profile: Profile | Analysis,
    document: dict[str, object],
    folder: Path,
    *,
    root: Path = Path(),
    before: Profile | None = None,
) -> list[str]:
    """Write ``summary.json``, ``events.json``, ``profile.perfetto-trace`` and ``profile.html``.

    Args:
        profile: what the events and the trace show.
        document: the summary, with what was added to it.
        folder: made if it is missing.
        root: where the page's source files are searched for.
        before: a profile that the page shows beside this one.

    Returns:
        The names of the files.

    Raises:
        NeffError: ``NEFF-WRITE``; the folder cannot be written.
    """
    analysis = analysis_of(profile)
    analyses = [analysis] if before is None else [before, analysis]
    page = render_page(analyses, root=root, is_comparison=before is not None)
    try:
        check_path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(folder / "summary.json") as file:
            file.write(json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n")
        with atomic_file(folder / "events.json") as file:
            analysis.profile.write_events(file)
        with atomic_file(folder / "profile.perfetto-trace") as file:
            write_trace(analysis, file)
        with atomic_file(folder / "profile.html") as file:
            file.write(page.encode())
    except OSError as error:
        raise NeffError(
            f"cannot be written: {error.strerror}",
            code="NEFF-WRITE",
            place=shown(folder),
            remedy="give a folder that can be written",
        ) from error
    return ["summary.json", "events.json", "profile.perfetto-trace", "profile.html"]
