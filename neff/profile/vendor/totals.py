"""The fields of the schema's table ``Summary``, by its formulas."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from neff.profile.table import Profile
from neff.profile.vendor.rows import Context, intervals, machine
from neff.profile.vendor.schema import TABLES
from neff.timing import Event
from neff.timing.events import DESCRIPTORS, QUEUE
from neff.timing.transfers import COPIES

__all__ = ["summary_json", "summary_text", "totals"]

_ENGINES = ("tensor", "vector", "scalar", "sync", "gpsimd")
_QUEUES = {"data": "static", "software_dynamic": "software_dynamic",
           "hardware_dynamic": "hardware_dynamic"}  # fmt: skip
_SUMS = ("sbuf_read", "sbuf_write", "psum_read", "psum_write", "hbm_read", "hbm_write")
_PRODUCTS = ("nc_matmul", "nc_matmul_mx", "nc_transpose")


@dataclass(slots=True)
class _Sums:
    """Sums over all events and iterations."""

    values: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, name: str, amount: float) -> None:
        self.values[name] = self.values.get(name, 0.0) + amount

    def __getitem__(self, name: str) -> float:
        return self.values.get(name, 0.0)


def totals(profile: Profile) -> dict[str, float | int]:
    """Field -> value; seconds, bytes, FLOPs; shares from 0 to 1."""
    context = Context.of(profile)
    sums = _Sums()
    for _, core, index, event in context.events():
        _count(context, sums, event, profile.self_ns[core][index], profile.flops[core][index])
    figures = {**_time(profile, sums), **_flops(profile, sums), **_dma(profile, sums),
             **_memory(profile, sums), **_engines(profile, sums)}  # fmt: skip
    return {f.name: figures[f.name] for f in TABLES["Summary"].fields if f.name in figures}


def _count(context: Context, sums: _Sums, event: Event, self_ns: float, flops: int) -> None:
    iterations, duration = event.turns, (event.end - event.start) * event.turns
    sums.add("events", 1)
    moved = context.traffics.of(event.source)
    if event.lane.startswith(QUEUE):
        kind = _QUEUES.get(moved.queue_type, "static")
        for name in ("", kind):
            sums.add(f"dma count {name}", iterations)
            sums.add(f"dma bytes {name}", event.nbytes * iterations)
            sums.add(f"dma packets {name}", moved.packets * iterations)
            sums.add(f"dma time {name}", duration)
            sums.add(f"dma active {name}", self_ns * iterations)
        for name in _SUMS:
            sums.add(name, getattr(moved, name) * iterations)
        direction = "read" if moved.hbm_read else "write"
        sums.add(f"{moved.kind} {direction}", event.nbytes * iterations)
        return
    if event.lane == DESCRIPTORS:
        return
    sums.add(f"{event.lane} time", duration)
    sums.add(f"{event.lane} active", self_ns * iterations)
    sums.add(f"{event.lane} count", iterations)
    sums.add("flops", flops * iterations)
    sums.add("adjusted", flops * moved.factor * iterations)
    if event.opcode in _PRODUCTS:
        sums.add("matmuls", iterations)
        sums.add("transposed", moved.flops_transpose * iterations)
        sums.add("adjusted transposed", moved.flops_transpose * moved.factor * iterations)
    if event.opcode.startswith("activat"):
        sums.add("activate count", iterations)
        sums.add("activate time", duration)
    if event.opcode not in COPIES and event.opcode not in ("load_weights", "act_table_load",
                                                           "event_semaphore"):  # fmt: skip
        for name in _SUMS:
            sums.add(name, getattr(moved, name) * iterations)


def _seconds(nanoseconds: float) -> float:
    return nanoseconds / 1e9


def _time(profile: Profile, sums: _Sums) -> dict[str, float | int]:
    total = profile.estimate.total.value
    active = max((_active(profile, core) for core in range(len(profile.estimate.cores))), default=0)
    return {
        "total_time": _seconds(total),
        "neuroncore_cycle_count": round(total * machine(profile).clock_ghz),
        "total_exec_time": _seconds(total),
        "total_active_time": _seconds(min(active, total)),
        "total_active_time_percent": min(active, total) / total if total else 0.0,
        "trace_count": 1,
        "event_count": round(sums["events"]),
        "total_row_count": round(sums["events"]),
    }


def _active(profile: Profile, core: int) -> float:
    """Nanoseconds in which an engine or the DMA works, iterations of loops counted."""
    core_estimate, spans = profile.estimate.cores[core], 0.0
    by_turns: dict[int, list[tuple[float, float]]] = {}
    for event in core_estimate.events:
        by_turns.setdefault(event.turns, []).append((event.start, event.end))
    for iterations, group in by_turns.items():
        spans += iterations * sum(end - start for start, end in intervals(group))
    return spans


def _flops(profile: Profile, sums: _Sums) -> dict[str, float | int]:
    rates, cores = machine(profile), len(profile.estimate.cores) or 1
    hbm = sums["hbm_read"] + sums["hbm_write"]
    core_seconds = _seconds(profile.estimate.total.value) * cores or 1.0
    model, hardware = sums["flops"], sums["flops"] + sums["transposed"]
    ridge = rates.flops / rates.hbm_bytes
    intensity = model / hbm if hbm else 0.0
    mfu, reachable = model / rates.flops / core_seconds, intensity / ridge
    return {
        "model_flops": round(model),
        "hardware_flops": round(hardware),
        "transpose_flops": round(sums["transposed"]),
        "adjusted_hardware_flops": round(sums["adjusted"] + sums["adjusted transposed"]),
        "adjusted_transpose_flops": round(sums["adjusted transposed"]),
        "mm_arithmetic_intensity": intensity,
        "peak_flops_bandwidth_ratio": ridge,
        "mfu_estimated_percent": mfu,
        "mfu_max_achievable_estimated_percent": reachable,
        "mfu_inst_estimated_percent": mfu,
        "mfu_inst_max_achievable_estimated_percent": reachable,
        "hfu_estimated_percent": hardware / rates.flops / core_seconds,
    }


def _dma(profile: Profile, sums: _Sums) -> dict[str, float | int]:
    total = profile.estimate.total.value
    cores = profile.estimate.cores
    active = sum(_moving(profile, core) for core in range(len(cores))) / (len(cores) or 1)
    count, size = sums["dma count "], sums["dma bytes "]
    packets = sums["dma packets "] or 1.0
    figures: dict[str, float | int] = {
        "dma_active_cycles": round(active * machine(profile).clock_ghz),
        "dma_active_time": _seconds(active),
        "dma_active_time_percent": active / total if total else 0.0,
        "dma_packet_time": _seconds(sum(core.dma_ns for core in cores)),
        "dma_transfer_time": _seconds(sums["dma time "]),
        "dma_transfer_count": round(count),
        "dma_transfer_total_bytes": round(size),
        "dma_transfer_average_bytes": size / count if count else 0.0,
        "dma_queue_count": len(
            {lane for core in cores for lane in core.queues if lane != DESCRIPTORS}
        ),
    }
    for kind in ("static", "software_dynamic", "hardware_dynamic"):
        active_ns = sums[f"dma active {kind}"]
        figures |= {
            f"{kind}_dma_active_time": _seconds(active_ns),
            f"{kind}_dma_active_time_percent": active_ns / total if total else 0.0,
            f"{kind}_dma_packet_count": round(sums[f"dma packets {kind}"]),
            f"{kind}_dma_size": round(sums[f"dma bytes {kind}"]),
            f"{kind}_dma_packet_percent": sums[f"dma packets {kind}"] / packets,
            f"{kind}_dma_size_percent": sums[f"dma bytes {kind}"] / (size or 1.0),
        }
    for name in ("active_time_percent", "packet_percent", "size_percent"):
        kinds = ("software_dynamic", "hardware_dynamic")
        figures[f"dynamic_dma_{name}"] = sum(figures[f"{kind}_dma_{name}"] for kind in kinds)
    return figures


def _moving(profile: Profile, core: int) -> float:
    """Nanoseconds in which some transfer is moved."""
    by_turns: dict[int, list[tuple[float, float]]] = {}
    for event in profile.estimate.cores[core].events:
        if event.lane.startswith(QUEUE):
            by_turns.setdefault(event.turns, []).append((event.start, event.end))
    return sum(
        iterations * sum(end - start for start, end in intervals(group))
        for iterations, group in by_turns.items()
    )


def _memory(profile: Profile, sums: _Sums) -> dict[str, float | int]:
    sizes: dict[str, int] = {}
    for variable in profile.program.variables.values():
        sizes[variable.kind] = sizes.get(variable.kind, 0) + variable.nbytes
    read = sizes.get("input", 0) + sizes.get("constant", 0)
    seconds = _seconds(profile.estimate.total.value) or 1.0
    bandwidth = machine(profile).hbm_bytes * seconds
    return {
        **{f"{name}_bytes": round(sums[name]) for name in _SUMS},
        "inputs_and_weights_size_bytes": read,
        "inputs_outputs_weights_size_bytes": read + sizes.get("output", 0),
        "weight_size_bytes": sizes.get("constant", 0),
        "mbu_estimated_percent": (sums["hbm_read"] + sums["hbm_write"]) / bandwidth,
        "mbu_min_read_util_percent": read / bandwidth,
        "spill_save_bytes": round(sums["scratch write"]),
        "spill_reload_bytes": round(sums["scratch read"]),
        "input_queue_bytes": round(sums["input read"]),
        "output_queue_bytes": round(sums["output write"]),
        "weight_queue_bytes": round(sums["constant read"]),
    }


def _engines(profile: Profile, sums: _Sums) -> dict[str, float | int]:
    core_ns = profile.estimate.total.value * len(profile.estimate.cores) or 1.0
    figures: dict[str, float | int] = {}
    for engine in _ENGINES:
        active = sums[f"{engine} active"]
        figures |= {
            f"{engine}_engine_instruction_time": _seconds(sums[f"{engine} time"]),
            f"{engine}_engine_active_time": _seconds(active),
            f"{engine}_engine_active_time_percent": active / core_ns,
            f"{engine}_engine_instruction_count": round(sums[f"{engine} count"]),
        }
    return figures | {
        "matmul_instruction_count": round(sums["matmuls"]),
        "activate_instruction_count": round(sums["activate count"]),
        "activate_instruction_time": _seconds(sums["activate time"]),
    }


def summary_json(profile: Profile) -> dict[str, Mapping[str, float | int | bool]]:
    """The document of ``view --output-format summary-json``: shares are fractions."""
    key = hashlib.sha256(profile.name.encode()).hexdigest()[:16]
    return {f"n_{key}": {"nc_idx": 0, "nd_idx": 0, "is_simulation": True, **totals(profile)}}


def summary_text(profile: Profile) -> str:
    """The same as lines of a name and a value."""
    (fields,) = summary_json(profile).values()
    width = max(len(name) for name in fields)
    return "\n".join(f"{name:<{width}}  {_number(value)}" for name, value in fields.items())


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f"{value:.6g}"
