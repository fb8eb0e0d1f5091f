"""The rows of each table; times are whole nanoseconds from the beginning of the body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from neff.profile.memory import Holding, holdings
from neff.profile.stalls import wait_before
from neff.profile.table import Profile
from neff.profile.vendor.schema import TABLES, VERSION
from neff.profile.vendor.traffic import Traffic, Traffics
from neff.timing import Event, Pricing
from neff.timing.events import DESCRIPTORS, QUEUE
from neff.timing.transfers import COPIES
from neff.timing.work import LANES
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import target_of
from nki_lang.ir import Access

__all__ = ["ROW_FUNCTIONS", "Context", "Row", "intervals", "machine"]

Value = int | float | str | bool | None
Row = Mapping[str, Value]

_TRACKS = {"nc_matmul": "TensorMatrix", "nc_matmul_mx": "TensorMatrix"}
_HBM_STACKS = {"trn1": 2, "trn2": 4, "trn3": 4}
"""HBM stacks of a chip (A1:21, A2:16, A3:16); the schema's bandwidth is one stack's."""
_CORE_CLOCKS = {"trn1": 1.4, "trn2": 1.2, "trn3": 1.2}


@dataclass(frozen=True, slots=True)
class Context:
    """A profile, and what its instructions move."""

    profile: Profile
    traffics: Traffics

    @classmethod
    def of(cls, profile: Profile) -> Context:
        """Return the source of a profile's tables."""
        pricing = Pricing(profile.parameters, cores=len(profile.estimate.cores))
        is_static = profile.estimate.dma == "static"
        return cls(profile, Traffics(profile.program, pricing, is_static))

    def events(self) -> Iterator[tuple[int, int, int, Event]]:
        """(number over all cores, core, index in it, event)."""
        number = 0
        for core, core_estimate in enumerate(self.profile.estimate.cores):
            for index, event in enumerate(core_estimate.events):
                yield number, core, index, event
                number += 1

    def firsts(self) -> list[int]:
        """Number of each core's first event."""
        firsts = [0]
        for core in self.profile.estimate.cores:
            firsts.append(firsts[-1] + len(core.events))
        return firsts


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine figures in the schema's formulas; FLOPs and bytes a second."""

    flops: float
    hbm_bytes: float
    clock_ghz: float


def machine(profile: Profile) -> Machine:
    """Peak rates of one core: 2 x 128 x 128 operations a cycle, and one stack of HBM."""
    target = target_of(profile.estimate.target)
    clock = profile.parameters["tensor.clock_ghz"].value
    stack = target.hbm_gb_per_s / _HBM_STACKS[target.name] * 1e9
    return Machine(2 * 128 * 128 * clock * 1e9, stack, _CORE_CLOCKS[target.name])


def intervals(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The union of spans as spans that do not touch."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _is_queue(event: Event) -> bool:
    return event.lane.startswith(QUEUE)


def _is_engine(event: Event) -> bool:
    return event.lane != DESCRIPTORS and not _is_queue(event)


# --- one function a table -------------------------------------------------------------------


def _metadata(context: Context) -> Iterator[Row]:
    profile = context.profile
    target = target_of(profile.estimate.target)
    rates, total = machine(profile), round(profile.estimate.total.value)
    clocks = {
        f"{engine}_engine_clock_freq": profile.parameters[f"{engine}.clock_ghz"].value
        for engine in ("tensor", "vector", "scalar", "gpsimd")
    }
    channels = {f"{name}_engine_num_channels": 128 for name in ("vector", "scalar", "gpsimd")}
    cores = len(profile.estimate.cores)
    yield {
        "profile_schema_version": VERSION, "ntff_version": 0, "num_physical_cores": cores,
        "vnc_enabled": cores > 1, "first_hw_timestamp": 0, "last_hw_timestamp": total,
        "first_ts": "0", "last_ts": str(total),
        "dma_ddr_bandwidth": LANES * profile.parameters["dma.bytes_per_ns"].value * 1e9,
        "num_dma_engines_per_neuroncore": target.dma_queues,
        "hbm_ddr_bandwidth": rates.hbm_bytes,
        "tensor_engine_num_rows": 128, "tensor_engine_num_cols": 128, **clocks, **channels,
        "neuroncore_clock_freq": rates.clock_ghz, "ticks_per_nanosec": 1,
        "instance_type": target.name, "profile_name": profile.name, "is_simulation": True,
    }  # fmt: skip


def _instructions(context: Context) -> Iterator[Row]:
    profile = context.profile
    counters: dict[tuple[int, str], int] = {}
    waits = [wait_before(profile, core) for core in range(len(profile.estimate.cores))]
    for number, core, index, event in context.events():
        if not _is_engine(event):
            continue
        counters[core, event.lane] = counter = counters.get((core, event.lane), -1) + 1
        site_number = profile.site_of[core][index]
        site = profile.sites[site_number]
        moved = Traffic() if event.opcode in COPIES else context.traffics.of(event.source)
        flops = profile.flops[core][index]
        transposed = moved.flops_transpose if event.opcode in _COMPUTES else 0
        wait = round(waits[core].get(index, 0.0))
        waits_for = profile.estimate.cores[core].events[event.waits_for].lane if wait else ""
        yield {
            "start_ts": round(event.start), "end_ts": round(event.end),
            "duration_ns": round(event.end) - round(event.start),
            "engine": event.lane,
            "timeline_track": _TRACKS.get(event.opcode, event.lane.capitalize()),
            "pcore_idx": core, "opcode": event.opcode, "operands": site.operands,
            "compiler_opcode": event.opcode, "compiler_operands": site.operands,
            "id": number, "pc": counter, "bir_id": str(site_number),
            "kernel_instruction_name": str(site_number) if site.line else None,
            "evt_wait_time_ns": wait,
            "dma_wait_time_ns": wait if waits_for.startswith(QUEUE) else 0,
            "hlo_name": site.op or None, "layer": site.scope or None,
            "nki_source_location": f"{site.file}:{site.line}" if site.line else None,
            "sbuf_read_bytes": moved.sbuf_read, "sbuf_write_bytes": moved.sbuf_write,
            "psum_read_bytes": moved.psum_read, "psum_write_bytes": moved.psum_write,
            "raw_flops": flops, "adjusted_flops": round(flops * moved.factor),
            "flops_transpose": transposed,
            "adjusted_flops_transpose": round(transposed * moved.factor),
            "scalar_activation_fn": _function(event),
        }  # fmt: skip


_COMPUTES = ("nc_matmul", "nc_matmul_mx", "nc_transpose")


def _function(event: Event) -> str | None:
    operands = getattr(event.source, "operands", {})
    return str(operands["op"]) if event.opcode.startswith("activat") and "op" in operands else None


def _assembly(context: Context) -> Iterator[Row]:
    for row in _instructions(context):
        yield {
            "instruction_id": row["id"], "compiler_opcode": row["opcode"],
            "compiler_operands": row["operands"], "compiler_pc": row["pc"],
        }  # fmt: skip


def _active(context: Context) -> Iterator[Row]:
    for core, core_estimate in enumerate(context.profile.estimate.cores):
        for engine in core_estimate.engines:
            spans = ((e.start, e.end) for e in core_estimate.events if e.lane == engine)
            for start, end in intervals(spans):
                yield {
                    "start_ts": round(start), "end_ts": round(end), "engine": engine,
                    "pcore_idx": core, "duration_ns": round(end) - round(start),
                }  # fmt: skip


def _opcodes(context: Context) -> Iterator[Row]:
    profile = context.profile
    totals: dict[tuple[str, str], list[float]] = {}
    for _, core, index, event in context.events():
        if _is_engine(event):
            sums = totals.setdefault((event.lane, event.opcode), [0.0, 0.0, 0.0])
            sums[0] += event.turns
            sums[1] += (event.end - event.start) * event.turns
            sums[2] += profile.self_ns[core][index] * event.turns
    total = profile.estimate.total.value * len(profile.estimate.cores) or 1.0
    for (engine, opcode), (count, duration, active) in sorted(totals.items()):
        yield {
            "engine": engine, "opcode": opcode, "instruction_count": round(count),
            "instruction_time_ns": round(duration), "active_time_ns": round(active),
            "active_time_percent": active / total,
        }  # fmt: skip


def _transfers(context: Context) -> Iterator[Row]:
    queues: dict[str, int] = {}
    firsts = context.firsts()
    for number, core, _, event in context.events():
        if not _is_queue(event):
            continue
        moved = context.traffics.of(event.source)
        start, end = round(event.start), round(event.end)
        yield {
            "start_ts": start, "end_ts": end, "duration_ns": end - start, "id": number,
            "pcore_idx": core, "block_id": number,
            "queue_idx": queues.setdefault(event.lane, len(queues)), "queue_name": event.lane,
            "queue_type": moved.queue_type or "unknown", "op": event.opcode,
            "variable": moved.variable, "read_bytes": event.nbytes, "write_bytes": event.nbytes,
            "transfer_bytes": event.nbytes,
            "throughput": event.nbytes / max(1, end - start) * 1e9, "semaphore_id": "",
            "source": _memory(moved.source), "dest": _memory(moved.dest),
            **_side("read", moved.source), **_side("write", moved.dest),
            "is_transpose_mode": event.opcode == "dma_transpose",
            "trigger": firsts[core] + event.after if event.after >= 0 else None,
        }  # fmt: skip


def _memory(access: Access | None) -> str:
    if access is None:
        return ""
    return access.tensor.buffer.name.upper() if access.tensor.on_chip else "HBM"


def _side(name: Literal["read", "write"], access: Access | None) -> dict[str, Value]:
    pattern = access.pattern if access is not None else ()
    on_chip = access is not None and access.tensor.buffer is MemoryRegion.sbuf
    count = pattern[0][1] if on_chip and pattern else 0
    first = access.tensor.address[0] if on_chip and access and access.tensor.address else 0
    return {
        f"{name}_sbuf_partitions": f"[{first},{first + count - 1}]" if count else "[]",
        f"{name}_num_sbuf_partitions": count,
        f"{name}_shape": str([extent for _, extent in pattern]),
        f"{name}_offset": str(access.offset if access is not None else 0),
        f"{name}_steps": str([step for step, _ in pattern]),
    }


def _usage(is_counted: Callable[[Traffic], bool]) -> Callable[[Context], Iterator[Row]]:
    """Bytes a second over time: each transfer moves its bytes evenly."""

    def rows(context: Context) -> Iterator[Row]:
        for core, core_estimate in enumerate(context.profile.estimate.cores):
            changes: list[tuple[float, float, int]] = []
            for event in core_estimate.events:
                if _is_queue(event) and is_counted(context.traffics.of(event.source)):
                    rate = event.nbytes / max(1.0, event.end - event.start) * 1e9
                    changes += [(event.start, rate, 0), (event.end, -rate, event.nbytes)]
            rate, moved_bytes = 0.0, 0
            for time, change, nbytes in sorted(changes):
                rate, moved_bytes = max(0.0, rate + change), moved_bytes + nbytes
                yield {
                    "timestamp": round(time), "current_throughput": rate,
                    "total_transfer_bytes": moved_bytes, "pcore_idx": core,
                }  # fmt: skip

    return rows


def _pending(context: Context) -> Iterator[Row]:
    for core, core_estimate in enumerate(context.profile.estimate.cores):
        moved = [event for event in core_estimate.events if _is_queue(event)]
        changes = [(event.since, 1) for event in moved] + [(event.end, -1) for event in moved]
        value = 0
        for time, change in sorted(changes):
            value += change
            yield {"timestamp": round(time), "value": value, "pcore_idx": core}


_KINDS = {"input": "IN", "output": "OUT", "constant": "WEIGHT"}


def _tensors(context: Context) -> Iterator[Row]:
    loads: dict[str, tuple[int, int]] = {}
    for _, _, _, event in context.events():
        moved = context.traffics.of(event.source)
        if _is_queue(event) and moved.hbm_read and moved.sbuf_write:
            count, size = loads.get(moved.variable, (0, 0))
            loads[moved.variable] = count + event.turns, size + event.nbytes * event.turns
    for variable in context.profile.program.variables.values():
        if variable.kind not in _KINDS:
            continue
        count, size = loads.get(variable.name, (0, 0))
        yield {
            "variable_name": variable.name, "type": _KINDS[variable.kind],
            "format": variable.dtype.name, "shape": str(list(variable.shape)),
            "size": variable.nbytes, "load_to_sbuf_avg_size_bytes": size // count if count else 0,
            "load_to_sbuf_total_size_bytes": size, "load_to_sbuf_dma_count": count,
            "load_to_sbuf_repeat_factor": size / variable.nbytes if variable.nbytes else 0.0,
        }  # fmt: skip


def _flows(context: Context) -> Iterator[Row]:
    firsts = context.firsts()
    for number, core, _, event in context.events():
        if event.waits_for < 0 or event.lane == DESCRIPTORS:
            continue
        before = context.profile.estimate.cores[core].events[event.waits_for]
        yield {
            "in_id": firsts[core] + event.waits_for, "out_id": number,
            "in_table": "dma_block" if _is_queue(before) else "instruction",
            "out_table": "dma_block" if _is_queue(event) else "instruction",
            "dependency_type": "FLOW_DEPENDENCE",
            "gap_time": max(0, round(event.start) - round(before.end)),
        }  # fmt: skip


def _kernel_instructions(context: Context) -> Iterator[Row]:
    for number, site in enumerate(context.profile.sites):
        if site.line:
            yield {
                "kernel_instruction_name": str(number), "stack_frame_id": number,
                "stack_frame_depth": len(site.frames), "file_path": site.file,
                "line_number": site.line,
            }  # fmt: skip


def _frames(context: Context) -> Iterator[Row]:
    """Yield a frame per site, then its callers with higher numbers; equal callers are merged."""
    sites = context.profile.sites
    outer: dict[tuple[tuple[str, str], ...], int] = {}
    for number, site in enumerate(sites):
        if not site.line:
            continue
        calls = tuple(zip(site.frames, site.functions[1:], strict=False))
        for depth in range(len(calls)):
            outer.setdefault(calls[depth:], len(sites) + len(outer))
        yield {
            "stack_frame_id": number, "fully_qualified_function_name": site.functions[0] or site.op,
            "parent_stack_frame_id": outer.get(calls), "file_path": site.file,
            "line_number": site.line,
        }  # fmt: skip
    for calls, number in outer.items():
        (frame, function), *_ = calls
        file, _, line = frame.rpartition(":")
        yield {
            "stack_frame_id": number, "fully_qualified_function_name": function or None,
            "parent_stack_frame_id": outer.get(calls[1:]), "file_path": file,
            "line_number": int(line) if line.isdigit() else None,
        }  # fmt: skip


def _holdings_by_core(context: Context, memory: str) -> dict[int, list[Holding]]:
    by_core: dict[int, list[Holding]] = {}
    for holding in holdings(context.profile):
        if holding.memory == memory:
            by_core.setdefault(holding.core, []).append(holding)
    return by_core


def _samples(
    holdings_of_core: list[Holding], groups: Mapping[str, Callable[[Holding], float]]
) -> Iterator[tuple[float, dict[str, float]]]:
    """The sum of each group over time, at every change."""
    changes = [(holding.start_ns, 1, holding) for holding in holdings_of_core] + [
        (holding.end_ns, -1, holding) for holding in holdings_of_core
    ]
    sums = dict.fromkeys(groups, 0.0)
    for time, sign, holding in sorted(changes, key=lambda change: (change[0], -change[1])):
        for name, weight in groups.items():
            sums[name] += sign * weight(holding)
        yield time, dict(sums)


def _sbuf(context: Context) -> Iterator[Row]:
    target = target_of(context.profile.estimate.target)
    size = target.sbuf_partition_bytes

    def share_at(row: int) -> Callable[[Holding], float]:
        return lambda holding: (
            holding.size / size * (holding.first <= row < holding.first + holding.partitions)
        )

    groups = {f"partition_{row}_util_percent": share_at(row) for row in (0, 32, 64, 96)}
    groups["avg_util_percent"] = lambda holding: holding.nbytes / (size * target.partitions)
    for core, core_holdings in _holdings_by_core(context, "sbuf").items():
        for time, sums in _samples(core_holdings, groups):
            yield {"timestamp": round(time), "pcore_idx": core, **sums}


def _psum(context: Context) -> Iterator[Row]:
    target = target_of(context.profile.estimate.target)
    bank, partitions = target.psum_bank_bytes, target.partitions

    def of(number: int) -> Callable[[Holding], float]:
        def share(holding: Holding) -> float:
            first, end = number * bank, (number + 1) * bank
            inside = max(0, min(end, holding.address + holding.size) - max(first, holding.address))
            return inside * holding.partitions / (bank * partitions)

        return share

    groups = {f"bank_{number}_util_percent": of(number) for number in range(target.psum_banks)}
    total_bytes = target.psum_partition_bytes * partitions
    groups["avg_util_percent"] = lambda holding: holding.nbytes / total_bytes
    for core, core_holdings in _holdings_by_core(context, "psum").items():
        for time, sums in _samples(core_holdings, groups):
            yield {"timestamp": round(time), "pcore_idx": core, **sums}


def _allocations(context: Context) -> Iterator[Row]:
    """Yield the tensors in every thirty-second partition, as the vendor's viewer shows them."""
    for core, core_holdings in _holdings_by_core(context, "sbuf").items():
        for holding in core_holdings:
            for partition in (0, 32, 64, 96):
                if holding.first <= partition < holding.first + holding.partitions:
                    yield {
                        "start_ts": round(holding.start_ns), "end_ts": round(holding.end_ns),
                        "start_address": holding.address, "end_address": holding.address + holding.size - 1,
                        "partition": partition, "tensor_name": holding.name, "pcore_idx": core,
                    }  # fmt: skip


def _warnings(context: Context) -> Iterator[Row]:
    total = context.profile.estimate
    yield {"message": f"everything is estimated by a timing model: {total}", "category": "model"}
    if not total.is_complete:
        text = "iterations of loops are not known: one is counted (a lower bound)"
        yield {"message": text, "category": "model"}
    if any(event.turns > 1 for _, _, _, event in context.events()):
        text = "iterations of device loops that are alike are rows once; totals count them all"
        yield {"message": text, "category": "model"}


def _executions(context: Context) -> Iterator[Row]:
    estimate = context.profile.estimate
    yield {
        "execution_index": 0, "neff_name": context.profile.name, "execution_start_ts": 0,
        "execution_end_ts": round(estimate.total.value), "num_subgraphs": len(estimate.cores),
        "row_count": sum(len(core.events) for core in estimate.cores),
    }  # fmt: skip


_TYPES = {"i": ("integer", "int64"), "f": ("number", "double"), "s": ("string", None),
          "b": ("boolean", None)}  # fmt: skip


def _schema(context: Context) -> Iterator[Row]:
    for table in TABLES.values():
        for field in table.fields:
            kind, form = _TYPES[field.type]
            yield {
                "table_name": table.name, "table_description": table.description,
                "field_name": field.name, "field_description": field.name.replace("_", " "),
                "field_type": kind, "field_required": field.required, "field_format": form,
                "field_unit": field.unit or None,
            }  # fmt: skip


ROW_FUNCTIONS: dict[str, Callable[[Context], Iterator[Row]]] = {
    "Metadata": _metadata,
    "Instruction": _instructions,
    "AssemblyInstruction": _assembly,
    "ActiveTime": _active,
    "OpcodeSummary": _opcodes,
    "DmaPacketAggregated": _transfers,
    "DmaUsage": _usage(lambda moved: True),
    "HbmUsage": _usage(lambda moved: bool(moved.hbm_read or moved.hbm_write)),
    "PendingDma": _pending,
    "TensorInfo": _tensors,
    "Flow": _flows,
    "KernelInstructions": _kernel_instructions,
    "KernelStackFrames": _frames,
    "SbufUsage": _sbuf,
    "PsumUsage": _psum,
    "SbufAllocation": _allocations,
    "Warning": _warnings,
    "ExecutionInfo": _executions,
    "SchemaFields": _schema,
}
"""The function that yields the rows of each table except ``Summary``."""
