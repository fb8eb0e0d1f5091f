"""Options of a check: assumptions and optional rules; the defaults are XLA's verifier's."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT", "Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The strictness of a check.

    Attributes:
        backend: preset of what compiled the module: ``"auto"`` detects it; see
            :data:`hlo_tools.verify.BACKENDS`.
        layout_sensitive: layouts are final: only copies change them, pairs agree in them.
        mixed_precision: an operation may take and give floats of several types.
        unbounded: shapes may have dimensions without a bound (``?``).
        replica_groups: check replica groups against the numbers of devices.
        replicas, partitions: of the program; 1 is "not known", as in XLA.
        deadlocks: in a scheduled module no send waits for a receive that comes later.
        threads: calls and reducers stay in their thread.
        strict: also XLA's optional checks: ``ordered_broadcasts``, and devices against the numbers of
            replicas and partitions in the module's device assignment.
        ordered_broadcasts: dimensions of a broadcast ascend.
        same_names: instructions are called what their ``scheduling_name`` is.
        device_memory: nothing lies in the memory of the host.
        bitcast_reshapes: a reshape outside a fusion moves nothing in memory.
    """

    backend: str = "auto"
    layout_sensitive: bool = False
    mixed_precision: bool = False
    unbounded: bool = False
    replica_groups: bool = True
    replicas: int = 1
    partitions: int = 1
    deadlocks: bool = False
    threads: bool = True
    strict: bool = False
    ordered_broadcasts: bool = False
    same_names: bool = False
    device_memory: bool = False
    bitcast_reshapes: bool = False


DEFAULT = Options()
"""XLA's defaults."""
