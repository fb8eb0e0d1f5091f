"""``python -m hlo_tools.cli`` is ``nki-hlo``."""

from __future__ import annotations

import sys

from hlo_tools.cli import main

sys.exit(main())
