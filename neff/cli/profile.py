"""``nki-neff profile``."""

from __future__ import annotations

from pathlib import Path

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.options import AsJson
from neff.cli.advice import print_advice
from neff.cli.estimates import EstimateOptions
from neff.cli.options import File
from neff.cli.program_report import ProgramReport, ReportOptions, print_source, print_table
from neff.cli.vendor_formats import write_format
from neff.profile import Profile, by, profile_of
from neff.profile.text import engine_table, headline, path_table, share_table

__all__ = ["command"]


def command(
    file: File,
    *,
    report: ReportOptions,
    estimate: EstimateOptions,
    as_json: AsJson = False,
) -> int:
    """Show where the time of a NEFF built here would go on its target; all of it is estimated.

    Example: nki-neff profile matmul.neff --by line -o profile
    """
    return _profile(file, report, estimate, as_json)


def _profile(file: Path, options: ReportOptions, estimate: EstimateOptions, as_json: bool) -> int:
    """Print where a NEFF's time goes by the timing model, and write the documents.

    Raises:
        NeffError: it cannot be read, is not ours, or an option names nothing.
    """
    from neff.container import read

    options.check()
    program = read(file)
    keywords = estimate.keywords(program, file)
    if options.output_format and not options.advice:
        profile = profile_of(program, **keywords)
        return write_format(profile, options.output_format, options.output)
    before = None if options.compare is None else _other(options.compare, estimate)
    report = ProgramReport(program, options, keywords, before)
    root = options.root or Path()
    if options.output is not None:
        names = report.write(options.output, root)
        console.note(f"wrote {', '.join(names[:-1])} and {names[-1]} to {options.output}")
    if options.advice:
        print_advice([(str(file), report.profile)], options.advice)
        return 0
    if as_json:
        console.write_json("profile", file=str(file), profile=report.printed_document())
        return 0
    _print(report, options, root)
    report.print_sections()
    return 0


def _print(report: ProgramReport, options: ReportOptions, root: Path) -> None:
    analysis = report.analysis
    console.line(headline(analysis.profile))
    console.line()
    print_table(share_table(options.by, report.shares))
    if options.source:
        print_source(by(analysis, "line"), root)
    for core in range(len(analysis.profile.estimate.cores)):
        console.line()
        print_table(engine_table(analysis, core))
        console.line()
        print_table(path_table(analysis, core))


def _other(file: Path, options: EstimateOptions) -> Profile:
    """Return the profile of the NEFF that is compared with, with the same options."""
    from neff.container import read

    program = read(file)
    return profile_of(program, **options.keywords(program, file))
