"""Peak rates of one NeuronCore, by target: the rates of a roofline.

Sources: A1, A2, A3 = the vendor documentation's architecture guides
(nki/guides/architecture/trainium_inferentia2_arch.rst, trainium2_arch.rst, trainium3_arch.rst).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["PEAKS", "Peaks"]

_LANES = 128


@dataclass(frozen=True, slots=True)
class Peaks:
    """Rates of one core.

    Attributes:
        target: its family.
        tensor: FLOPs a second of products by the size of an element, in bits (A1:103, A2:71, A3:68).
        vector: operations a second on elements, two in each pass over them (A2:217, A3:155; of trn1
            nothing is published: a pass of 128 lanes in a cycle).
        scalar: functions such as ``exp`` a second: one in each lane in a cycle (A1:63, A2:49, A3:46).
        bandwidth: bytes a second of device memory: the device's share of a core (A1:21, A2:16,
            A3:16).
    """

    target: str
    tensor: MappingProxyType[int, float]
    vector: float
    scalar: float
    bandwidth: float

    def of_product(self, bits: int) -> float:
        """FLOPs a second of products of elements of a size; unknown sizes are as 32 bits."""
        for size, rate in sorted(self.tensor.items()):
            if bits <= size:
                return rate
        return self.tensor[32]

    @property
    def ridge(self) -> float:
        """FLOPs a byte from which on products of 16-bit elements are bound by arithmetic."""
        return self.tensor[16] / self.bandwidth


def _peaks(
    target: str,
    tensor: tuple[float, float, float],
    vector: float,
    clock: float,
    hbm: float,
    cores: int,
) -> Peaks:
    rates = {bits: tera * 1e12 for bits, tera in zip((8, 16, 32), tensor, strict=True)}
    return Peaks(
        target, MappingProxyType(rates), vector * 1e12, _LANES * clock * 1e9, hbm * 1e9 / cores
    )


PEAKS: MappingProxyType[str, Peaks] = MappingProxyType(
    {
        "trn1": _peaks("trn1", (92, 92, 23), 2 * _LANES * 1.12e-3, 1.4, 820, 2),
        "trn2": _peaks("trn2", (158, 79, 20), 1.0, 1.2, 3000, 8),
        "trn3": _peaks("trn3", (315, 79, 20), 1.2, 1.2, 4700, 8),
    }
)
"""Peak rates by the target's name."""
