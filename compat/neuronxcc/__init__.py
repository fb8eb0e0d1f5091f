"""``neuronxcc``: the command line of the vendor's compiler, and what scripts still import."""

from neff.version import __version__ as _version

__version__ = f"{_version}+nkihlo"
