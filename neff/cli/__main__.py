"""``python -m neff.cli`` is ``nki-neff``."""

from __future__ import annotations

import sys

from neff.cli import main

sys.exit(main())
