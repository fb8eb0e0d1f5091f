"""``nki-hlo cache``: what a store of build results holds, and looking after it."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.configuration import read_configuration
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.errors import HloError, HloFileError
from hlo_tools.extract.remote import pull, push
from hlo_tools.store import Entry, Limits, Store, collect, entries, open_place, verify
from hlo_tools.store.places import Place

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Look after a store of build results: a folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX.",
)

Url = Annotated[
    str, typer.Argument(help="The store; the setting build_cache by default.", metavar="[URL]")
]

_SIZES: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_TIMES: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SHOWN: Final = 12
"""Digits of a key in tables; commands take any beginning that one key has."""


@app.command("ls")
def list_entries(url: Url = "", as_json: AsJson = False) -> int:
    """List the results, least recently used first.

    Example: nki-hlo cache ls s3://builds/team
    """
    with _reported(url) as location:
        results = entries(location)
    if as_json:
        console.write_json(
            "cache ls", url=location.url, entries=[_as_json(stored) for stored in results]
        )
        return 0
    rows = [
        (stored.digest[:_SHOWN], stored.kind, f"{stored.size:,}", _when(stored), _what(stored))
        for stored in results
    ]
    console.table(("key", "kind", "bytes", "used", "made from"), rows)
    contents = {digest: size for stored in results for digest, size in stored.files.values()}
    count = console.counted(len(results), "result")
    console.note(f"{count}, {sum(contents.values()):,} bytes in {location.url}")
    return 0


@app.command()
def gc(
    url: Url = "",
    max_size: Annotated[
        str,
        typer.Option(
            help="Keep at most this much: 10GiB. Setting build_cache_size.", metavar="SIZE"
        ),
    ] = "",
    max_age: Annotated[
        str,
        typer.Option(
            help="Remove what was not used for this long: 30d. Setting build_cache_age.",
            metavar="TIME",
        ),
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Remove the least recently used results beyond a size or an age, and what nothing needs.

    Example: nki-hlo cache gc s3://builds/team --max-size 10GiB --max-age 30d
    """  # fmt: skip
    settings = read_configuration()
    size = max_size or settings.text("build_cache_size")
    age = max_age or settings.text("build_cache_age")
    limits = Limits(
        int(_number(size, _SIZES, "a size: 500MiB, 10GiB")) if size else None,
        _number(age, _TIMES, "a time: 12h, 30d") if age else None,
    )
    with _reported(url) as location:
        removed_entries = collect(location, limits)
        left = entries(location)
    if as_json:
        console.write_json(
            "cache gc",
            url=location.url,
            removed=[_as_json(removed_entry) for removed_entry in removed_entries],
            left=len(left),
        )
        return 0
    freed = sum(removed_entry.size for removed_entry in removed_entries)
    removed = console.counted(len(removed_entries), "result")
    console.line(f"{removed} removed ({freed:,} bytes), {len(left)} left")
    return 0


@app.command("verify")
def verify_store(
    url: Url = "",
    remove: Annotated[bool, typer.Option("--remove", help="Remove what is damaged.")] = False,
    as_json: AsJson = False,
) -> int:
    """Read everything and compare it with its digests; exit code 1 when something is damaged.

    Example: nki-hlo cache verify s3://builds/team
    """
    with _reported(url) as location:
        faults = verify(location, remove=remove)
    if as_json:
        rows = [{"name": fault.name, "problem": fault.problem} for fault in faults]
        console.write_json("cache verify", url=location.url, faults=rows, removed=remove)
    else:
        for fault in faults:
            console.line(f"{fault.name}: {fault.problem}{'; removed' if remove else ''}")
        console.note(f"{console.counted(len(faults), 'damaged file')} in {location.url}")
    return 1 if faults else 0


Folder = Annotated[Path, typer.Argument(help="A compile cache.", metavar="FOLDER")]


@app.command("push")
def push_modules(folder: Folder, url: Url = "", as_json: AsJson = False) -> int:
    """Publish the extracted modules of a folder; what the store has already stays.

    Example: nki-hlo cache push modules s3://builds/team
    """
    with _reported(url, creates=True) as location:
        store = Store(location)
        published, failed = push(store, folder)
    for text in store.notes:
        console.note(text)
    if as_json:
        console.write_json(
            "cache push", url=location.url,
            published=[str(name) for name in published], failed=[str(name) for name in failed],
        )  # fmt: skip
    else:
        console.line(f"{console.counted(len(published), 'module')} in {location.url}")
    if failed or not published:
        raise HloFileError(
            f"{console.counted(len(failed), 'module')} not published" if failed else "no modules",
            code="HLO-STORE",
            place=location.url if failed else str(folder),
            remedy="nki-hlo extract writes modules; see the notes above for what a store refused",
        )
    return 0


@app.command("pull")
def pull_modules(folder: Folder, url: Url = "", as_json: AsJson = False) -> int:
    """Fetch the published modules into a folder; what is there already stays.

    Exit code 1 when some are damaged or not to be trusted: they are left out.

    Example: nki-hlo cache pull modules s3://builds/team
    """
    with _reported(url) as location:
        written, refused = pull(Store(location), folder)
    if as_json:
        console.write_json("cache pull", url=location.url, written=written, refused=refused)
    else:
        for name in written:
            console.line(str(folder / name))
        for name in refused:
            console.note(f"left out, since it is damaged: {name}")
        console.note(f"{console.counted(len(written), 'module')} fetched from {location.url}")
    return 1 if refused else 0


@app.command()
def explain(
    key: Annotated[str, typer.Argument(help="A key, or its beginning.", metavar="KEY")],
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Show what a result was made from: what its key is the digest of.

    The most similar other result follows, with what differs: why one was not found for the other.

    Example: nki-hlo cache explain 13f2bb60 s3://builds/team
    """
    with _reported(url) as location:
        stored = entries(location)
    matches = [entry for entry in stored if entry.digest.startswith(key.lower())]
    if len(matches) != 1:
        complaint = f"{len(matches)} results begin" if matches else "no result begins"
        raise HloError(
            f"{complaint} with {key!r}",
            code="HLO-STORE-KEY",
            place=location.url,
            remedy="nki-hlo cache ls lists the keys; nki-neff build --json says each build's",
        )
    entry = matches[0]
    nearest_entry = min(
        (
            candidate
            for candidate in stored
            if candidate is not entry and candidate.kind == entry.kind
        ),
        key=lambda candidate: len(_differences(entry, candidate)),
        default=None,
    )
    if as_json:
        nearest = (
            {}
            if nearest_entry is None
            else {"nearest": nearest_entry.digest, "differs": _differences(entry, nearest_entry)}
        )
        console.write_json("cache explain", **_as_json(entry), **nearest)
        return 0
    console.line(f"{entry.digest}  {entry.kind}")
    console.table(("part", "value"), sorted(entry.parts.items()), indent="  ")
    for name, (digest, size) in entry.files.items():
        console.line(f"  -> {name}  {size:,} bytes  {digest}")
    if nearest_entry is not None:
        console.line(
            f"{nearest_entry.digest[:_SHOWN]} differs in {', '.join(_differences(entry, nearest_entry))}"
        )
    return 0


def _differences(left: Entry, right: Entry) -> list[str]:
    names = sorted({*left.parts, *right.parts})
    return [name for name in names if left.parts.get(name) != right.parts.get(name)]


@contextmanager
def _reported(url: str, *, creates: bool = False) -> Generator[Place]:
    """The store of a command; what it cannot do is an error of ours.

    Raises:
        HloError: ``HLO-STORE``: it cannot be read or written; ``HLO-STORE-URL``: none is named.
    """
    is_named = bool(url)
    url = url or read_configuration().text("build_cache")
    if not url:
        raise HloError(
            "no store is named",
            code="HLO-STORE-URL",
            remedy="pass a folder or URL, or set build_cache (nki-hlo config)",
        )
    _check_folder(url, must_exist=is_named and not creates)
    location = open_place(url)
    try:
        yield location
    except OSError as error:
        raise HloFileError(
            f"the store cannot be used: {error.strerror or error}",
            code="HLO-STORE",
            place=url,
            remedy="check the address, the credentials and the network",
        ) from error


def _check_folder(url: str, *, must_exist: bool) -> None:
    """Refuse a file or a missing folder in place of a store: both read as an empty one.

    The configured store may be missing: its first build makes it.
    """
    if must_exist and "://" not in url and not Path(url).exists():
        raise HloFileError(
            "there is no such folder",
            code="HLO-STORE",
            place=url,
            remedy="pass the folder that nki-neff build --cache wrote, or a URL",
        )
    if "://" not in url and Path(url).exists() and not Path(url).is_dir():
        raise HloFileError(
            "this is a file, not the folder of a store",
            code="HLO-STORE",
            place=url,
            remedy="pass the folder that nki-neff build --cache wrote, or a URL",
        )


def _number(text: str, units: dict[str, int] | dict[str, float], what: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if match is None or match[2] not in units:
        raise typer.BadParameter(f"{text!r} is not {what}")
    return float(match[1]) * units[match[2]]


def _when(entry: Entry) -> str:
    return datetime.fromtimestamp(entry.used, UTC).strftime("%Y-%m-%d %H:%M")


def _what(entry: Entry) -> str:
    part_names = ("target", "option optlevel")
    shown = [entry.parts[name] for name in part_names if name in entry.parts]
    shown += [entry.parts["entry"]] if "entry" in entry.parts else []
    inputs = [
        f"{name.removeprefix('input ')} {value[:_SHOWN]}"
        for name, value in sorted(entry.parts.items())
        if name.startswith("input ")
    ]
    return " ".join([*shown, *inputs])


def _as_json(entry: Entry) -> dict[str, object]:
    files = {name: {"sha256": digest, "size": size} for name, (digest, size) in entry.files.items()}
    return {"key": entry.digest, "kind": entry.kind, "parts": dict(entry.parts), "files": files,
            "used": entry.used}  # fmt: skip
