"""The tables as Parquet files; needs pyarrow (the extra ``profile``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from neff.errors import NeffError
from neff.profile.table import Profile
from neff.profile.vendor.rows import ROW_FUNCTIONS, Context, Row
from neff.profile.vendor.schema import TABLES, VERSION, Table
from neff.profile.vendor.totals import totals
from nki_lang.base.atomic import atomic_file
from nki_lang.base.plain_files import check_path, shown

__all__ = ["write_parquet"]

_GROUP = 1 << 16
"""Rows that are held and written at a time."""


def write_parquet(profile: Profile, folder: Path) -> list[Path]:
    """Write every table that has rows, as ``folder/profiles/global/NAME@latest/TABLE.parquet``.

    Raises:
        NeffError: ``NEFF-PYARROW``; pyarrow is not installed. ``NEFF-WRITE``; the folder cannot
            be written.
    """
    context = Context.of(profile)
    name = re.sub(r"[^\w.-]", "_", profile.name) or "profile"
    location = folder / "profiles" / "global" / f"{name}@latest"
    try:
        check_path(location)
        location.mkdir(parents=True, exist_ok=True)
        paths = [_write(table, _rows(table, context), location) for table in TABLES.values()]
    except OSError as error:
        raise NeffError(
            f"cannot be written: {error.strerror}",
            code="NEFF-WRITE",
            place=shown(location),
            remedy="give a folder that can be written",
        ) from error
    return [path for path in paths if path is not None]


def _rows(table: Table, context: Context) -> Iterator[Row]:
    return (
        iter([totals(context.profile)])
        if table.name == "Summary"
        else ROW_FUNCTIONS[table.name](context)
    )


def _write(table: Table, rows: Iterator[Row], folder: Path) -> Path | None:
    first = list(islice(rows, _GROUP))
    path = folder / f"{table.name}.parquet"
    if not first:
        path.unlink(missing_ok=True)
        return None
    arrow, parquet = _pyarrow(), import_module("pyarrow.parquet")
    schema = _schema(arrow, table)
    with atomic_file(path) as file, parquet.ParquetWriter(file, schema, compression="zstd") as out:
        while first:
            columns = [
                arrow.array([row.get(field.name) for row in first], type=kind.type)
                for field, kind in zip(table.fields, schema, strict=True)
            ]
            out.write_table(arrow.Table.from_arrays(columns, schema=schema))
            first = list(islice(rows, _GROUP))
    return path


def _schema(arrow: Any, table: Table) -> Any:
    types = {"i": arrow.int64(), "f": arrow.float64(), "s": arrow.string(), "b": arrow.bool_()}
    fields = [
        arrow.field(field.name, types[field.type], nullable=not field.required,
                    metadata={"unit": field.unit} if field.unit else None)
        for field in table.fields
    ]  # fmt: skip
    about = {"profile_schema_version": VERSION, "is_simulation": "true"}
    return arrow.schema(fields, metadata=about)


def _pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise NeffError(
            "Parquet files need pyarrow",
            code="NEFF-PYARROW",
            remedy="install it: pip install '.[profile]' in the checkout",
        ) from error
