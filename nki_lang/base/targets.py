"""The Trainium families: one table, every row with its source.

Sources: A1, A2, A3 = the vendor documentation's architecture guides
(nki/guides/architecture/trainium_inferentia2_arch.rst, trainium2_arch.rst, trainium3_arch.rst);
HC = nkipy, HardwareConstants.h; T = nki/get-started/about/tiling-overview.rst.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import MappingProxyType

from nki_lang.base.errors import NkiValidationError

__all__ = ["TARGETS", "Target", "current_target", "target_of"]


@dataclass(frozen=True, slots=True)
class Target:
    """One Trainium family.

    Attributes:
        name: ``trn1``, ``trn2`` or ``trn3``.
        generation: NeuronCore generation, 2 to 4 (``nisa.nc_version``).
        partitions: partitions of SBUF and PSUM.
        sbuf_partition_bytes: all bytes of SBUF in one partition (A1:76, A2:39, A3:36).
        sbuf_usable_bytes: the bytes of it that a kernel may use (HC:38-43).
        psum_partition_bytes, psum_banks, psum_bank_bytes: PSUM (A1:77, 789; HC).
        clocks_ghz: clock of each engine (A1:63-74, A2:49-64, A3:46-61).
        hbm_bytes, hbm_gb_per_s: device memory (A1:21, A2:16, A3:16).
        dma_queues: DMA engines per core (A1:613, A2:17, A3:17).
        max_lnc: physical cores per logical core (trn2 and later: 2).
    """

    name: str
    generation: int
    sbuf_partition_bytes: int
    sbuf_usable_bytes: int
    clocks_ghz: MappingProxyType[str, float]
    hbm_bytes: int
    hbm_gb_per_s: float
    max_lnc: int
    partitions: int = 128
    psum_partition_bytes: int = 16 * 1024
    psum_banks: int = 8
    psum_bank_bytes: int = 2 * 1024
    dma_queues: int = 16


def _clocks(**ghz: float) -> MappingProxyType[str, float]:
    return MappingProxyType(ghz)


_GIB = 1 << 30

TARGETS: MappingProxyType[str, Target] = MappingProxyType(
    {
        "trn1": Target(
            "trn1", 2, 192 * 1024, 180224,
            _clocks(tensor=2.8, vector=1.12, scalar=1.4, gpsimd=1.4), 32 * _GIB, 820.0, 1,
        ),
        "trn2": Target(
            "trn2", 3, 224 * 1024, 212984,
            _clocks(tensor=2.4, vector=0.96, scalar=1.2, gpsimd=1.2), 96 * _GIB, 3000.0, 2,
        ),
        "trn3": Target(
            "trn3", 4, 256 * 1024, 245752,
            _clocks(tensor=2.4, vector=1.2, scalar=1.2, gpsimd=1.2), 144 * _GIB, 4700.0, 2,
        ),
    }
)  # fmt: skip

_ALIASES = {
    "trn1n": "trn1", "inf2": "trn1", "gen2": "trn1",
    "trn2n": "trn2", "gen3": "trn2", "gen4": "trn3",
}  # fmt: skip

DEFAULT_TARGET = "trn3"
"""The default of the vendor's tools (nki 0.6 launch rules)."""


def target_of(name: str) -> Target:
    """Return the target called ``name`` (``trn1``, ``inf2``, ``gen3``, ...).

    Raises:
        NkiValidationError: code ``NKI-TARGET``; there is no such target.
    """
    target = TARGETS.get(_ALIASES.get(name.lower(), name.lower()))
    if target is None:
        raise NkiValidationError(
            f"there is no target {name!r}",
            code="NKI-TARGET",
            remedy=f"use one of {', '.join(TARGETS)} (or {', '.join(_ALIASES)})",
        )
    return target


def current_target() -> Target:
    """Return the target that NEURON_PLATFORM_TARGET_OVERRIDE names, else the default."""
    return target_of(os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE") or DEFAULT_TARGET)
