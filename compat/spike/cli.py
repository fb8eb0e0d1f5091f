"""``spike.cli``: the entry point of ``spike-run``."""

import sys

from neff.cli.spike_run import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
