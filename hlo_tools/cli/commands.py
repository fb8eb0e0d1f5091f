"""The table of ``nki-hlo``'s commands. To add one, add one line here and write its module.

The module is imported only when the command runs (or its own ``--help`` is shown), so it may
import what it needs at its top. It has one function ``command``, a plain typer command: typed
parameters with ``Annotated[..., typer.Option/Argument(help=...)]``, a docstring that is the help
text (first line: what it does; then an example after a blank line). What it returns is the exit
code; None is 0. A group of sub-commands has a ``typer.Typer`` called ``app`` instead.

What a command uses from this package:

- ``inputs.open_module(name)``: a module from a path or ``-``.
- ``console``: ``table``, ``line``, ``note`` (stderr), ``write_json``, ``write_binary``.
- errors: raise ``HloError`` (or ``NkiError``, ``NeffError``); they are printed as
  ``error[CODE] place: message`` and the exit code is 3. ``typer.BadParameter`` is a usage error,
  exit code 2. Anything else is an internal error, 4, shown in full with ``--debug``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from hlo_tools.cli.shared.table import Command, Program

__all__ = ["PROGRAM"]

LOOK, CHANGE, SCRIPTS, CHECK = "Inspect modules", "Change modules", "Run scripts", "Check"

_on_modules = partial(Command, takes_modules=True, shows_progress=True)
_other = partial(Command, shows_progress=True)
_on_scripts = partial(Command, traces_kernels=True)
"""Those that run scripts show no progress: a bar would be in the way of what the script prints."""
PROGRAM: Final = Program(
    "nki-hlo",
    "Inspect, check, extract and run HLO modules with NKI kernels; no Trainium needed.",
    (
        _on_modules(
            "show", "hlo_tools.cli.show", "Show a module, instruction by instruction.", LOOK
        ),
        _on_modules(
            "kernels", "hlo_tools.cli.kernels", "List the kernels that modules call.", LOOK
        ),
        _on_modules(
            "sharding", "hlo_tools.cli.sharding", "Show which device holds which part.", LOOK
        ),
        _on_modules("graph", "hlo_tools.cli.graph", "Draw a module as a picture or a page.", LOOK),
        _on_modules("diff", "hlo_tools.cli.diff", "Compare two modules.", LOOK),
        _on_modules(
            "stats",
            "hlo_tools.cli.stats",
            "Count what modules cost: FLOPs, bytes, constants.",
            LOOK,
        ),
        _on_modules(
            "slice",
            "hlo_tools.cli.slice",
            "Extract part of a module as a module that runs.",
            CHANGE,
        ),
        _on_modules("merge", "hlo_tools.cli.merge", "Merge two modules into one.", CHANGE),
        _on_modules(
            "convert", "hlo_tools.cli.convert", "Convert between formats, ids, dialects.", CHANGE
        ),
        _on_modules("opt", "hlo_tools.cli.opt", "Run passes on modules, or list them.", CHANGE),
        _other("kernel", "hlo_tools.cli.kernel", "Embed, swap, replace, expand kernels.", CHANGE),
        _on_scripts(
            "extract",
            "hlo_tools.cli.extract",
            "Extract the modules that a script compiles.",
            SCRIPTS,
        ),
        _on_scripts(
            "run",
            "hlo_tools.cli.run",
            "Run a script on the simulated device.",
            SCRIPTS,
            for_modules="evaluate",
        ),
        _other(
            "migrate",
            "hlo_tools.cli.migrate",
            "Rewrite kernels of earlier versions of NKI.",
            SCRIPTS,
        ),
        _on_scripts("profile", "", "Estimate where a script's programs spend time.", SCRIPTS),
        _on_scripts("grade", "", "Judge kernels against a reference.", SCRIPTS),
        _on_scripts("tune", "", "Estimate a kernel with many parameters.", SCRIPTS),
        _on_scripts("watch", "", "Check and estimate a script's kernels on each save.", SCRIPTS),
        _on_modules("evaluate", "hlo_tools.cli.evaluate", "Evaluate a module.", CHECK),
        _on_modules(
            "bisect", "hlo_tools.cli.bisect", "Find where two evaluations first differ.", CHECK
        ),
        _on_modules(
            "reduce", "hlo_tools.cli.reduce", "Find the smallest module that shows a fault.", CHECK
        ),
        _other(
            "check", "hlo_tools.cli.check", "Check kernels for faults.", CHECK, traces_kernels=True
        ),
        _on_modules("verify", "hlo_tools.cli.verify", "Check that a module is valid.", CHECK),
        _on_modules(
            "lint",
            "hlo_tools.cli.lint",
            "Report what the compiler would reject.",
            CHECK,
            traces_kernels=True,
        ),
        _other(
            "explain", "hlo_tools.cli.explain", "Explain the code of an error or finding.", CHECK
        ),
        _other("cache", "hlo_tools.cli.cache", "Look after a store of build results.", CHECK),
        _other("config", "hlo_tools.cli.config", "Show the settings in effect.", CHECK),
        _other(
            "doctor",
            "hlo_tools.cli.doctor",
            "Report who provides each package and what works.",
            CHECK,
        ),
    ),
    elsewhere={
        name: f"nki-neff {name}"
        for name in ("build", "info", "unpack", "time", "budget", "calibrate")
    },
)
