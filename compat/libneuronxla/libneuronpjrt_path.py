"""Where torch_xla finds the device's library."""

__all__ = ["libneuronpjrt_path"]


def libneuronpjrt_path() -> str:
    """Path of a shared library that exports ``GetPjrtApi``."""
    from neff.device.frameworks.torch_plugin import library_path

    return library_path()
