"""A profile in the tables, fields and formulas of the vendor's schema 7.4.0.

1. :mod:`schema`: the tables that an estimate has data for.
2. :mod:`traffic`: what one instruction reads, writes and computes.
3. :mod:`rows`: the rows of each table; :mod:`totals`: those of ``Summary``.
4. :mod:`parquet`: the tables as files, where the vendor's viewer keeps them.

Everything is estimated: ``Metadata.is_simulation`` is set. Iterations of a device loop that are
alike are rows once; totals count them all.
"""

from __future__ import annotations

from neff.profile.vendor.parquet import write_parquet
from neff.profile.vendor.totals import summary_json, summary_text, totals

__all__ = ["summary_json", "summary_text", "totals", "write_parquet"]
