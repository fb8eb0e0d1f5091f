"""``nki-hlo stats --memory --roofline``: what they print."""

from __future__ import annotations

from dataclasses import asdict

from hlo_tools.cli.shared import console
from hlo_tools.stats.buffer_assignment import Allocated
from hlo_tools.stats.memory import Memory, Owner
from hlo_tools.stats.roofline import Group, Roofline, Work
from hlo_tools.stats.units import bytes_text, share_text, time_text

__all__ = ["memory_json", "print_memory", "print_roofline", "roofline_json"]


def print_memory(found: Memory, allocated: Allocated | None, top: int) -> None:
    """The peak, what is alive then, and what XLA allocated where that is known."""
    order = "in the order of the module's schedule" if found.scheduled else "operands first"
    step = found.timeline[found.at] if found.timeline else None
    console.line(f"memory, {order}")
    if step is not None:
        at = f"at %{step.instruction}, step {found.at + 1:,} of {len(found.timeline):,}"
        console.line(f"peak             {bytes_text(found.peak)} ({found.peak:,} bytes) {at}")
    for title, size in (
        ("arguments", found.arguments), ("aliased", found.aliased), ("results", found.results),
        ("constants", found.constants), ("temporaries", found.temporaries),
    ):  # fmt: skip
        console.line(f"{title:<16} {bytes_text(size)}")
    if allocated is not None:
        share = share_text(found.peak, allocated.total)
        console.line(f"XLA allocated    {bytes_text(allocated.total)}; the peak is {share} of it")
    console.line()
    console.table(
        ("bytes", "share", "kind", "instruction", "shape", "source"),
        [
            (
                bytes_text(o.size),
                share_text(o.size, found.peak),
                o.kind,
                _part(o),
                o.shape,
                o.source,
            )
            for o in found.owners[:top]
        ],
    )
    _more(len(found.owners) - top, "buffer")
    console.line()
    console.table(("bytes", "source"), _sums(found.by_source(), top))
    console.line()
    console.table(("bytes", "scope"), _sums(found.by_scope(), top))


def print_roofline(found: Roofline, top: int) -> None:
    """The least time, what bounds it, the slowest instructions, sums by source line and scope."""
    console.line(f"roofline of one core of {found.peaks.target}")
    console.line(f"at least         {time_text(found.time)}")
    for name, time in found.by_bound().items():
        console.line(f"bound by {name:<7} {time_text(time)} ({share_text(time, found.time)})")
    console.line()
    console.table(
        ("time", "share", "bound by", "instruction", "opcode", "runs", "FLOPs", "bytes",
         "FLOPs/byte", "source"),
        [
            (time_text(w.time), share_text(w.time, found.time), w.bound, f"%{w.instruction}", w.opcode,
             w.runs, f"{w.flops:,}", f"{w.bytes:,}", f"{w.intensity:,.2f}", w.source)
            for w in found.work[:top]
        ],
    )  # fmt: skip
    _more(len(found.work) - top, "instruction")
    for title, groups in (("source", found.by_source()), ("scope", found.by_scope())):
        console.line()
        rows = [
            (time_text(g.time), share_text(g.time, found.time), f"{g.flops:,}", f"{g.bytes:,}",
             g.instructions, g.name or "(none)")
            for g in groups[:top]
        ]  # fmt: skip
        console.table(("time", "share", "FLOPs", "bytes", "instructions", title), rows)


def memory_json(found: Memory, allocated: Allocated | None) -> dict[str, object]:
    """The memory as JSON has it; the timeline as columns."""
    return {
        **{name: getattr(found, name) for name in ("peak", "scheduled", "arguments", "results")},
        **{name: getattr(found, name) for name in ("constants", "aliased", "temporaries", "at")},
        "owners": [asdict(owner) for owner in found.owners],
        "by_source": found.by_source(),
        "by_scope": found.by_scope(),
        "timeline": {
            "instruction": [step.instruction for step in found.timeline],
            "bytes": [step.bytes for step in found.timeline],
        },
        "allocated": None if allocated is None else asdict(allocated),
    }


def roofline_json(found: Roofline) -> dict[str, object]:
    """The roofline as JSON has it; times in seconds."""
    return {
        "target": found.peaks.target,
        "time": found.time,
        "by_bound": found.by_bound(),
        "unknown_loops": found.unknown_loops,
        "instructions": [_work(one) for one in found.work],
        "by_source": [_group(one) for one in found.by_source()],
        "by_scope": [_group(one) for one in found.by_scope()],
    }


def _work(one: Work) -> dict[str, object]:
    return {**asdict(one), "time": one.time, "bound": one.bound, "intensity": one.intensity}


def _group(one: Group) -> dict[str, object]:
    return asdict(one)


def _part(owner: Owner) -> str:
    index = f"{{{','.join(map(str, owner.index))}}}" if owner.index else ""
    return f"%{owner.instruction}{index}"


def _sums(found: dict[str, int], top: int) -> list[tuple[str, str]]:
    return [(bytes_text(size), name or "(none)") for name, size in list(found.items())[:top]]


def _more(count: int, what: str) -> None:
    if count > 0:
        console.line(f"{console.counted(count, f'{what} more', f'{what}s more')}")
