"""nkipy's import names, served by ``hlo_tools.trace``."""
