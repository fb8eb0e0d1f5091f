"""``neuronx-cc`` and ``spike-run`` as commands of the distribution ``nki-hlo-vendor-commands``.

They start what the import path has: the vendor's package where it is installed, else ours. Nothing
is imported at the top, see :mod:`neff.cli`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["neuronx_cc", "spike_run"]


def neuronx_cc() -> "Any":
    """Run ``neuronx-cc``; the exit code, 130 when it was interrupted."""
    return _run("neuronxcc.driver.CommandDriver")


def spike_run() -> "Any":
    """Run ``spike-run``; the exit code, 130 when it was interrupted."""
    return _run("spike.cli")


def _run(module: str) -> "Any":
    try:
        return __import__(module, fromlist=["main"]).main()
    except KeyboardInterrupt:
        import sys

        sys.stderr.write("interrupted\n")
        return 130
