"""``nki-hlo stats --memory --roofline``: what they print."""

from __future__ import annotations

from dataclasses import asdict

from hlo_tools.cli.shared import console
from hlo_tools.stats.buffer_assignment import Allocated
from hlo_tools.stats.memory import Memory, Owner
from hlo_tools.stats.roofline import Group, Roofline, Work
from hlo_tools.stats.units import bytes_text, share_text, time_text

__all__ = ["memory_json", "print_memory", "print_roofline", "roofline_json"]


def print_memory(memory: Memory, allocated: Allocated | None, top: int) -> None:
    """The peak, what is alive then, and what XLA allocated where that is known."""
    order = "in the order of the module's schedule" if memory.scheduled else "operands first"
    step = memory.timeline[memory.at] if memory.timeline else None
    console.line(f"memory, {order}")
    if step is not None:
        peak_step = f"at %{step.instruction}, step {memory.at + 1:,} of {len(memory.timeline):,}"
        console.line(
            f"peak             {bytes_text(memory.peak)} ({memory.peak:,} bytes) {peak_step}"
        )
    for title, size in (
        ("arguments", memory.arguments), ("aliased", memory.aliased), ("results", memory.results),
        ("constants", memory.constants), ("temporaries", memory.temporaries),
    ):  # fmt: skip
        console.line(f"{title:<16} {bytes_text(size)}")
    if allocated is not None:
        share = share_text(memory.peak, allocated.total)
        console.line(f"XLA allocated    {bytes_text(allocated.total)}; the peak is {share} of it")
    console.line()
    console.table(
        ("bytes", "share", "kind", "instruction", "shape", "source"),
        [
            (
                bytes_text(o.size),
                share_text(o.size, memory.peak),
                o.kind,
                _part(o),
                o.shape,
                o.source,
            )
            for o in memory.owners[:top]
        ],
    )
    _more(len(memory.owners) - top, "buffer")
    console.line()
    console.table(("bytes", "source"), _sums(memory.by_source(), top))
    console.line()
    console.table(("bytes", "scope"), _sums(memory.by_scope(), top))


def print_roofline(roofline: Roofline, top: int) -> None:
    """The least time, what bounds it, the slowest instructions, sums by source line and scope."""
    console.line(f"roofline of one core of {roofline.peaks.target}")
    console.line(f"at least         {time_text(roofline.time)}")
    for name, time in roofline.by_bound().items():
        console.line(f"bound by {name:<7} {time_text(time)} ({share_text(time, roofline.time)})")
    console.line()
    console.table(
        ("time", "share", "bound by", "instruction", "opcode", "runs", "FLOPs", "bytes",
         "FLOPs/byte", "source"),
        [
            (time_text(w.time), share_text(w.time, roofline.time), w.bound, f"%{w.instruction}", w.opcode,
             w.runs, f"{w.flops:,}", f"{w.bytes:,}", f"{w.intensity:,.2f}", w.source)
            for w in roofline.work[:top]
        ],
    )  # fmt: skip
    _more(len(roofline.work) - top, "instruction")
    for title, groups in (("source", roofline.by_source()), ("scope", roofline.by_scope())):
        console.line()
        rows = [
            (time_text(g.time), share_text(g.time, roofline.time), f"{g.flops:,}", f"{g.bytes:,}",
             g.instructions, g.name or "(none)")
            for g in groups[:top]
        ]  # fmt: skip
        console.table(("time", "share", "FLOPs", "bytes", "instructions", title), rows)


def memory_json(memory: Memory, allocated: Allocated | None) -> dict[str, object]:
    """The memory as JSON has it; the timeline as columns."""
    return {
        **{name: getattr(memory, name) for name in ("peak", "scheduled", "arguments", "results")},
        **{name: getattr(memory, name) for name in ("constants", "aliased", "temporaries", "at")},
        "owners": [asdict(owner) for owner in memory.owners],
        "by_source": memory.by_source(),
        "by_scope": memory.by_scope(),
        "timeline": {
            "instruction": [step.instruction for step in memory.timeline],
            "bytes": [step.bytes for step in memory.timeline],
        },
        "allocated": None if allocated is None else asdict(allocated),
    }


def roofline_json(roofline: Roofline) -> dict[str, object]:
    """The roofline as JSON has it; times in seconds."""
    return {
        "target": roofline.peaks.target,
        "time": roofline.time,
        "by_bound": roofline.by_bound(),
        "unknown_loops": roofline.unknown_loops,
        "instructions": [_work(work) for work in roofline.work],
        "by_source": [_group(group) for group in roofline.by_source()],
        "by_scope": [_group(group) for group in roofline.by_scope()],
    }


def _work(work: Work) -> dict[str, object]:
    return {**asdict(work), "time": work.time, "bound": work.bound, "intensity": work.intensity}


def _group(group: Group) -> dict[str, object]:
    return asdict(group)


def _part(owner: Owner) -> str:
    index = f"{{{','.join(map(str, owner.index))}}}" if owner.index else ""
    return f"%{owner.instruction}{index}"


def _sums(sizes: dict[str, int], top: int) -> list[tuple[str, str]]:
    return [(bytes_text(size), name or "(none)") for name, size in list(sizes.items())[:top]]


def _more(count: int, what: str) -> None:
    if count > 0:
        console.line(f"{console.counted(count, f'{what} more', f'{what}s more')}")
