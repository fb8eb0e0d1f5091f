"""A profile, or the costs of a kernel, at a prompt and in a notebook."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

from neff.profile.analysis import Analysis, by
from neff.profile.attribution import Share, by_line_and_opcode
from neff.profile.files import write_files
from neff.profile.summary import summary
from neff.profile.table import Profile
from neff.profile.text import (
    Table,
    as_html,
    as_text,
    cost_table,
    engine_table,
    headline,
    path_table,
    share_table,
)
from neff.profile.what_if import Changes, changes_of
from neff.timing import Estimate

__all__ = ["CostReport", "ProfileReport"]


class _Report:
    """A report: a line that names the estimate, then tables."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    @property
    def estimate(self) -> Estimate:
        """The total with its range; ``estimate.total.value`` in nanoseconds."""
        return self.profile.estimate

    def _tables(self) -> Iterator[Table]:
        raise NotImplementedError

    def __repr__(self) -> str:
        texts = [as_text(table) for table in self._tables()]
        return "\n\n".join([headline(self.profile), *texts])

    def _repr_html_(self) -> str:
        tables = "".join(as_html(table) for table in self._tables())
        return f"<p>{escape(headline(self.profile))}</p>{tables}"


class CostReport(_Report):
    """The cost of each line's instructions by ``profile``, all iterations in one row."""

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells of the table: line, engine, opcode, count, ns each, µs, bytes, FLOPs."""
        return cost_table(self.profile).rows

    def document(self) -> dict[str, object]:
        """The same as JSON values, marked as estimated."""
        rows = [
            {
                "line": location,
                "engine": lane,
                "opcode": opcode,
                "count": share.events,
                "self_us": round(share.self_ns / 1e3, 3),
                "bytes": share.nbytes,
                "flops": share.flops,
            }
            for (location, lane, opcode), share in by_line_and_opcode(
                Analysis(self.profile).cells
            ).items()
        ]
        return {"estimated": True, **self.estimate.to_json(), "lines": rows}

    def _tables(self) -> Iterator[Table]:
        yield cost_table(self.profile)


class ProfileReport(_Report):
    """Where a program's time goes.

    Args:
        profile: the reported profile.
        again: estimates the same program on a changed machine.
    """

    def __init__(self, profile: Profile, again: Callable[[Changes], Estimate]) -> None:
        super().__init__(profile)
        self._again = again

    def by(self, grouping: str) -> list[Share]:
        """Time by line, op, kernel, engine, opcode or scope; see :func:`neff.profile.by`."""
        return by(self.profile, grouping)

    def what_if(self, changes: str) -> Estimate:
        """The estimate with parts of the machine faster: ``dma=2x,tensor=free``."""
        return self._again(changes_of(changes))

    def summary(self) -> dict[str, object]:
        """All figures as one document."""
        return summary(self.profile)

    def write(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write the documents of ``nki-neff profile -o``; their names."""
        analysis = Analysis(self.profile)
        return write_files(analysis, summary(analysis), Path(folder))

    def _tables(self) -> Iterator[Table]:
        yield share_table("line", self.by("line"))
        for core in range(len(self.estimate.cores)):
            yield engine_table(self.profile, core)
            yield path_table(self.profile, core)
