"""When the device appears: only when the environment requests it."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Mapping

from hlo_tools.extract import protocol

__all__ = [
    "artifacts_are_wanted",
    "asked_for",
    "capture_is_wanted",
    "dump_is_wanted",
    "executor_is_chosen",
    "extract_only",
    "jax_is_asked",
    "note_zeros",
    "torch_is_asked",
]


def _set(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").strip() == "1"


def extract_only(environment: Mapping[str, str] = os.environ) -> bool:
    """Programs are captured and not run: results are zeros (NEURON_EXTRACT_GRAPHS_ONLY=1)."""
    return _set(environment, protocol.EXTRACT_ONLY)


def dump_is_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether each program is left in the working folder (NEURON_FRAMEWORK_DEBUG=1)."""
    return _set(environment, protocol.FRAMEWORK_DEBUG)


def capture_is_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether programs are to be written, or reported to the parent process."""
    flags = environment.get(protocol.COMPILER_FLAGS, "")
    return bool(
        environment.get(protocol.CACHE)
        or extract_only(environment)
        or environment.get(protocol.JOURNAL)
        or "--cache_dir" in flags
    )


def asked_for(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether anything requests the device, for any framework.

    That is NKI_HLO_DEVICE=1, NEURON_EXTRACT_GRAPHS_ONLY=1, or a platform together with a cache
    (NEURON_PLATFORM_TARGET_OVERRIDE and NEURON_COMPILE_CACHE_URL). NKI_HLO_DEVICE=0 refuses
    all of them.
    """
    if environment.get(protocol.DEVICE, "").strip() == "0":
        return False
    if _set(environment, protocol.DEVICE) or extract_only(environment):
        return True
    return bool(environment.get(protocol.PLATFORM) and environment.get(protocol.CACHE))


def executor_is_chosen(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether NKI_HLO_EXECUTOR selects how programs are run."""
    return bool(environment.get(protocol.EXECUTOR, "").strip())


def artifacts_are_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether NEFFs of kernels called with NumPy arrays are stored (NKI_ARTIFACTS_DIR)."""
    return bool(environment.get("NKI_ARTIFACTS_DIR", "").strip())


def jax_is_asked(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether JAX should see the device: requested, or JAX_PLATFORMS names it."""
    platforms = environment.get(protocol.JAX_DEVICES, "").replace(" ", "").split(",")
    return "neuron" in platforms or asked_for(environment)


def torch_is_asked(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether torch_xla should see the device.

    That is PJRT_DEVICE=NEURON; or no device is named, and either the device is requested or the
    process has imported ``nki``: torch_xla's own CPU device cannot run kernels.
    """
    named = environment.get(protocol.TORCH_DEVICE, "")
    if named:
        return named.upper() == "NEURON"
    return asked_for(environment) or _kernels_are_used(environment)


def _kernels_are_used(environment: Mapping[str, str]) -> bool:
    refused = environment.get(protocol.DEVICE, "").strip() == "0"
    return not refused and "nki" in sys.modules and importlib.util.find_spec("jax") is not None


@functools.cache
def note_zeros() -> None:
    """Say, once a process, that results are zeros because nothing is executed."""
    print(
        "note: programs are captured and not executed (NEURON_EXTRACT_GRAPHS_ONLY=1 or --no-run): "
        "every result is zeros; for results unset it, or use 'nki-hlo run SCRIPT'",
        file=sys.stderr,
    )
