"""``nki-neff build``: one NEFF, or one for each module of a folder or script."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import typer

from hlo_tools.cli.shared import console, failures
from hlo_tools.cli.shared.configuration import read_configuration
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.cli.shared.progress import paused, shown, step
from hlo_tools.cli.shared.selection import of_selected_target, options_to_choose
from hlo_tools.errors import HloFileError
from hlo_tools.store import Action, open_store
from neff.builds import (
    Outcome,
    Source,
    Work,
    action_of,
    build_many,
    explain_one,
    flags_of,
    make,
    output_names,
    sources_of,
)
from neff.builds.flags import given_flags
from neff.cli.build_options import BuildOptions, CompilerOptions, Paths
from neff.cli.explain import show
from neff.errors import NeffCompileError, NeffError
from neff.options import Flags
from neff.profile.explanation import Told

__all__ = ["command"]

DEFAULT_OUTPUT: Final = "file.neff"
"""The default output name of ``neuronx-cc``."""
DEFAULT_FOLDER: Final = "neffs"
FAILED = 3


@dataclass(frozen=True, slots=True)
class Request:
    """The command line's settings.

    Attributes:
        paths: modules, kernel files, folders of modules, ``-``; or a Python script and its own
            arguments.
        flags: compiler flags; those in a module's ``compile_flags.json`` come first.
        options: where and how the NEFFs are built.
        cache: URL or folder of a store of NEFFs, the option's or the configuration's; "" for none.
        as_json: print one document.
    """

    paths: tuple[Path, ...]
    flags: tuple[str, ...]
    options: BuildOptions
    cache: str
    as_json: bool


def command(
    paths: Paths,
    *,
    build: BuildOptions,
    compiler: CompilerOptions,
    as_json: AsJson = False,
) -> int:
    """Compile HLO modules with their kernels, each into one NEFF.

    Several modules are built in parallel into a folder; what is unchanged since the last build is
    left as it is. A script is extracted first, and its modules with kernels are built.

    Example: nki-neff build MODULE_DIR --target trn1 -o matmul.neff
    Example: nki-neff build hlo_artifacts --kernels-only -j 4 -o neffs
    Example: nki-neff build MODULE_DIR --explain -o matmul.neff
    Example: nki-neff build MODULE_DIR --kernels mine.py:softmax --explain -o matmul.neff
    """
    cache = build.cache or read_configuration().text("build_cache")
    if build.cache_read_only and not cache:
        raise typer.BadParameter(
            "--cache-read-only needs a store: --cache, or the setting build-cache"
        )
    flags = (*_flags(build, compiler), *compiler.cc_flags.split())
    return _build(Request(tuple(paths), flags, build, cache, as_json))


def _flags(build: BuildOptions, compiler: CompilerOptions) -> list[str]:
    """The compiler flags of what is given: ``--name=value``, or ``--name`` alone for True."""
    settings: dict[str, str | bool] = {
        "framework": compiler.framework,
        "target": build.target,
        "optlevel": compiler.optlevel,
        "auto-cast": compiler.auto_cast,
        "auto-cast-type": compiler.auto_cast_type,
        "logical-nc-config": compiler.lnc,
        "replicas": compiler.replicas,
        "partitions": compiler.partitions,
        "names": compiler.names,
        "downcast-f64": compiler.downcast_f64,
        "enable-fast-loading-neuron-binaries": compiler.fast_loading,
        "check-kernels": compiler.check_kernels,
    }
    flags = [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in settings.items()
        if value
    ]
    return [*flags, *(f"--kernels={name}" for name in compiler.kernels or ())]


def _build(request: Request) -> int:
    """Build what was asked for; the exit code.

    Raises:
        NeffError, HloError, NkiError: what is wrong, with its place.
    """
    given_flags(request.flags)  # a wrong one is refused once, before anything runs
    sources = _sources(request)
    folder = _folder(request, sources)
    if folder is None:
        return _build_file(sources[0], request)
    return _build_folder(sources, folder, request)


def _sources(request: Request) -> list[Source]:
    if request.paths[0].suffix == ".py":
        return _of_script(request.paths[0], request)
    sources = [source for path in request.paths for source in sources_of(path)]
    if len(request.paths) < 2:
        return sources
    selected = set(of_selected_target([str(source.file) for source in sources]))
    return [source for source in sources if str(source.file) in selected]


def _of_script(script: Path, request: Request) -> list[Source]:
    """Return the modules that a script compiles: those with kernels, or all when none has one."""
    from hlo_tools.extract import cache_folder, run_script

    with paused():
        run = run_script(
            script,
            [str(word) for word in request.paths[1:]],
            platform=request.options.target or None,
            output=cache_folder(os.environ) or "hlo_artifacts",
            stdout_to_stderr=request.as_json,
        )
    if run.exit_code or not run.modules:
        ended = f"ended with exit code {run.exit_code}" if run.exit_code else "compiled no program"
        raise NeffCompileError(
            f"the script {ended}",
            code="NEFF-SCRIPT",
            place=str(script),
            remedy="nki-hlo extract runs it in the same way; see what it printed",
        )
    with_kernels = [module for module in run.modules if module.kernels]
    if left := len(run.modules) - len(with_kernels) if with_kernels else 0:
        what = console.counted(left, "program")
        console.note(f"{what} without kernels not built; nki-neff build {run.output} builds all")
    folders = dict.fromkeys(Path(module.path) for module in with_kernels or run.modules)
    return [source for folder in folders for source in sources_of(folder)]


def _folder(request: Request, sources: Sequence[Source]) -> Path | None:
    """The folder for the NEFFs; None when one is written to a file."""
    output, count = request.options.output, len(sources)
    is_folder = bool(output) and (output.endswith(("/", os.sep)) or Path(output).is_dir())
    for_one = not request.options.jobs or output.endswith(".neff")
    if count == 1 and not is_folder and for_one and not request.options.scheduler:
        return None
    if output and not is_folder and Path(output).suffix == ".neff":
        raise NeffError(
            f"{console.counted(count, 'module')} cannot be built into one file",
            code="NEFF-MODULES",
            place=output,
            remedy="pass a folder with -o, or select a module: "
            + options_to_choose([str(source.file) for source in sources]),
        )
    return Path(output or DEFAULT_FOLDER)


# ------------------------------------------------------------------------------------ one NEFF


def _build_file(source: Source, request: Request) -> int:
    flags = flags_of(source.folder, request.flags)
    target = Path(request.options.output or flags.output or DEFAULT_OUTPUT)
    for flag in flags.ignored:
        console.note(f"{flag} has no effect here", verbose=True)
    store = (
        open_store(request.cache, read_only=request.options.cache_read_only)
        if request.cache
        else None
    )
    with shown("build"):
        action = action_of(source, flags) if store is not None else Action("neff", {})
        build = make(
            source, flags, target, action=action, store=store, report=_say,
            explain=request.options.explain, jobs=request.options.jobs or os.cpu_count() or 1,
        )  # fmt: skip
    _beside(source, flags, target, request, action.digest if store is not None else "")
    for warning in (*build.warnings, *(store.notes if store is not None else ())):
        console.note(warning)
    from neff.container import open_package, read

    package = open_package(target)
    message = (
        (build.explanation or explain_one(source, flags)).told()
        if request.options.explain
        else None
    )
    if request.as_json:
        from neff.container.inspect import describe_program
        from neff.timing import overrides_of

        more = {} if message is None else {"explanation": message.document}
        console.write_json(
            "build",
            module=str(source.file),
            output=str(target),
            bytes=target.stat().st_size,
            hash=package.header.digest.hex(),
            options=asdict(flags.options),
            ignored_flags=list(flags.ignored),
            fetched=build.fetched,
            **describe_program(read(target), overrides_of((), Path.cwd())),
            **more,
        )
    else:
        fetched = "  fetched" if build.fetched else ""
        console.line(f"{target}  {build.target}  {target.stat().st_size:,} bytes{fetched}")
        if message is not None:
            show(message)
    return 0


def _beside(source: Source, flags: Flags, output: Path, request: Request, digest: str) -> None:
    """The files beside a NEFF that were asked for."""
    if request.options.provenance:
        from neff.builds.provenance import write_provenance

        write_provenance(source, flags, output, digest=digest)
    if request.options.metaneff:
        from neff.builds.metaneff import write_metaneff
        from neff.container import read

        write_metaneff(read(output), output)


def _say(text: str) -> None:
    """Name the current step: beside the bar, and as a line when verbose."""
    step(text)
    console.note(text, verbose=True)


# ----------------------------------------------------------------------------------- many NEFFs


def _build_folder(sources: Sequence[Source], folder: Path, request: Request) -> int:
    _make(folder)
    works = [
        Work(
            source,
            request.flags,
            folder / name,
            store=request.cache,
            read_only=request.options.cache_read_only,
            explain=request.options.explain,
        )
        for source, name in zip(sources, output_names(sources), strict=True)
    ]
    jobs = min(request.options.jobs or os.cpu_count() or 1, len(works))

    def pool() -> ProcessPoolExecutor:
        # Not forked: the parent may have threads (the progress bar, NumPy's).
        return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))

    done = 0

    def on_done(outcome: Outcome) -> None:
        nonlocal done
        done += 1
        step(f"{outcome.work.output.name} {outcome.status}", done, len(works))
        console.note(f"{outcome.work.output} {outcome.status}", verbose=True)

    with shown("build"):
        outcomes = build_many(
            works,
            executor=pool if jobs > 1 else None,
            scheduler=request.options.scheduler,
            keep_going=request.options.keep_going,
            on_done=on_done,
        )
    for outcome in outcomes:
        if outcome.status in ("built", "fetched", "unchanged"):
            source, output = outcome.work.source, outcome.work.output
            flags = flags_of(source.folder, request.flags)
            _beside(source, flags, output, request, outcome.digest)
    explanations = _explained(outcomes) if request.options.explain else {}
    _report(outcomes, request, explanations)
    return FAILED if any(outcome.status == "failed" for outcome in outcomes) else 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HloFileError(
            f"the folder cannot be made: {error.strerror or error}",
            code="NEFF-WRITE",
            place=str(folder),
            remedy="name another one with -o",
        ) from error


def _explained(outcomes: Sequence[Outcome]) -> dict[Path, Told]:
    """Return the explanation of each source by its NEFF; fetched NEFFs are compiled for it."""
    return {
        outcome.work.output: outcome.explanation
        or explain_one(
            outcome.work.source, flags_of(outcome.work.source.folder, outcome.work.flags)
        ).told()
        for outcome in outcomes
        if outcome.failure is None and outcome.target
    }


def _report(outcomes: Sequence[Outcome], request: Request, explanations: dict[Path, Told]) -> None:
    """Every build in a row, warnings, and what failed at the end, complete."""
    if request.options.junit:
        from neff.cli.junit import render_builds

        console.write_binary(render_builds(outcomes).encode(), request.options.junit)
    if request.as_json:
        builds = [_as_json(outcome) for outcome in outcomes]
        for build, outcome in zip(builds, outcomes, strict=True):
            if (explanation := explanations.get(outcome.work.output)) is not None:
                build["explanation"] = explanation.document
        console.write_json("build", builds=builds)
    else:
        columns = ("", "target", "bytes", "s", "NEFF", "from")
        console.table(columns, [_row(outcome) for outcome in outcomes])
        for output, explanation in explanations.items():
            console.line(f"\n{output}")
            show(explanation)
    said = (text for outcome in outcomes for text in (*outcome.warnings, *outcome.notes))
    for warning in dict.fromkeys(said):
        console.note(warning)
    for outcome in outcomes:
        if outcome.failure is not None:
            failures.report(
                NeffCompileError(
                    outcome.failure.message,
                    code=outcome.failure.code,
                    place=outcome.failure.place or str(outcome.work.source.file),
                    remedy=outcome.failure.remedy,
                ),
                "nki-neff",
            )
    counts = {status: sum(outcome.status == status for outcome in outcomes)
              for status in ("built", "fetched", "unchanged", "failed", "skipped")}  # fmt: skip
    console.note(", ".join(f"{count} {status}" for status, count in counts.items() if count))


def _row(outcome: Outcome) -> tuple[object, ...]:
    size = f"{outcome.size:,}" if outcome.size else "-"
    seconds = f"{outcome.seconds:.2f}" if outcome.status in ("built", "fetched", "failed") else "-"
    return (
        outcome.status,
        outcome.target or "-",
        size,
        seconds,
        outcome.work.output,
        _shown(outcome.work.source),
    )


def _shown(source: Source) -> Path:
    return source.folder if source.is_entry else source.file


def _as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "module": str(outcome.work.source.file),
        "output": str(outcome.work.output),
        "status": outcome.status,
        "target": outcome.target,
        "bytes": outcome.size,
        "seconds": round(outcome.seconds, 4),
        "inputs": outcome.digest,
        "warnings": list(outcome.warnings),
        "error": asdict(outcome.failure) if outcome.failure is not None else None,
    }
