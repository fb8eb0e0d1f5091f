"""``neuronxcc.driver.CommandDriver``: the entry point of ``neuronx-cc``."""

from neff.cli.neuronx_cc import main

__all__ = ["main"]
