"""Memory over time and the roofline of a module, as one HTML page that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from hlo_tools.stats.memory import Memory
from hlo_tools.stats.roofline import Roofline
from hlo_tools.stats.units import bytes_text, share_text, time_text

__all__ = ["render_page"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --area: #3b82f6; --peak: #dc2626; --dim: #666; }
@media (prefers-color-scheme: dark) { :root { --dim: #a0a0a0; } }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.2rem; } h2 { font-size: 1rem; margin-top: 2rem; }
td, th, code { font-family: ui-monospace, monospace; font-size: 12.5px; text-align: left; }
table { border-collapse: collapse; } td { border-top: 1px solid var(--line); }
td, th { padding: .15rem .8rem .15rem 0; vertical-align: top; }
td:last-child, td.w { overflow-wrap: anywhere; }
td.n, th.n { text-align: right; white-space: nowrap; }
svg { width: 100%; height: auto; border: 1px solid var(--line); }
svg text { font: 11px ui-monospace, monospace; fill: currentColor; }
.area { fill: var(--area); opacity: .8; } .peak { stroke: var(--peak); stroke-dasharray: 4; }
.roof { stroke: currentColor; fill: none; } .dot { fill: var(--area); opacity: .65; }
.grid { stroke: var(--line); }
"""
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 1100, 320, 80, 24
_MOST_COLUMNS = 1000
_MOST_ROWS = 100
_MOST_DOTS = 2000


def render_page(name: str, memory: Memory | None, roofline: Roofline | None) -> str:
    """The page of a module.

    Args:
        name: the module's.
        memory, roofline: what to show; None leaves it out.
    """
    parts = [
        "<!doctype html>\n<html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>{escape(name)}</title><style>{_STYLE}</style><h1><code>{escape(name)}</code></h1>",
    ]
    if memory is not None:
        parts += _memory(memory)
    if roofline is not None:
        parts += _roofline(roofline)
    return "\n".join(parts) + "\n</html>\n"


def _memory(memory: Memory) -> list[str]:
    order = "the module's schedule" if memory.scheduled else "operands first: it has no schedule"
    sums = (
        ("peak", memory.peak), ("arguments", memory.arguments), ("aliased", memory.aliased),
        ("results", memory.results), ("constants", memory.constants),
        ("temporaries at the peak", memory.temporaries),
    )  # fmt: skip
    owners = [
        (bytes_text(o.size), share_text(o.size, memory.peak), o.kind, _part(o.instruction, o.index),
         o.opcode, o.shape, o.source, o.scope)
        for o in memory.owners[:_MOST_ROWS]
    ]  # fmt: skip
    return [
        f"<h2>Memory over time ({order})</h2>",
        "<p>" + " · ".join(f"{what} {bytes_text(size)}" for what, size in sums) + "</p>",
        _over_time(memory),
        "<h2>Alive at the peak</h2>",
        _table(("bytes", "share", "kind", "instruction", "opcode", "shape", "source", "scope"),
               owners, 2),
        _more(len(memory.owners)),
        "<h2>Alive at the peak by source line</h2>",
        _table(("bytes", "source"), _named(memory.by_source().items()), 1),
    ]  # fmt: skip


def _over_time(memory: Memory) -> str:
    """Draw the bytes alive at each step; columns of several steps show their maximum."""
    steps = memory.timeline
    if not steps:
        return ""
    steps_per_column = -(-len(steps) // _MOST_COLUMNS)
    columns = [
        steps[peak_column : peak_column + steps_per_column]
        for peak_column in range(0, len(steps), steps_per_column)
    ]
    width, top = (_WIDTH - _LEFT) / len(columns), max(memory.peak, 1)
    bars: list[str] = []
    for number, column in enumerate(columns):
        maximum = max(column, key=lambda step: step.bytes)
        height = (_HEIGHT - _BOTTOM - 10) * maximum.bytes / top
        title = f"%{maximum.instruction} in %{maximum.computation}: {bytes_text(maximum.bytes)}"
        bars.append(
            f"<rect class=area x={_LEFT + number * width:.2f} y={_HEIGHT - _BOTTOM - height:.1f} "
            f"width={width + 0.05:.2f} height={height:.1f}><title>{escape(title)}</title></rect>"
        )
    peak_column = memory.at // steps_per_column
    x = _LEFT + (peak_column + 0.5) * width
    levels = "".join(
        f"<text x=4 y={10 + (_HEIGHT - _BOTTOM - 10) * (1 - share) + 4:.0f}>"
        f"{bytes_text(top * share)}</text>"
        for share in (0.0, 0.5, 1.0)
    )
    label = f"peak at step {memory.at + 1} of {len(steps)}: %{steps[memory.at].instruction}"
    anchor = "end" if x > _WIDTH / 2 else "start"
    return (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img aria-label='bytes alive at each step'>"
        f"{''.join(bars)}<line class=peak x1={x:.1f} x2={x:.1f} y1=0 y2={_HEIGHT - _BOTTOM} />"
        f"{levels}<text x={x:.1f} y={_HEIGHT - 8} text-anchor={anchor}>{escape(label)}</text></svg>"
    )


def _roofline(roofline: Roofline) -> list[str]:
    bounds = " · ".join(f"{name} {time_text(time)}" for name, time in roofline.by_bound().items())
    work = [
        (time_text(w.time), share_text(w.time, roofline.time), w.bound, f"%{w.instruction}", w.opcode,
         f"{w.runs:,}", f"{w.flops:,}", bytes_text(w.bytes), f"{w.intensity:.2f}", w.source, w.scope)
        for w in roofline.work[:_MOST_ROWS]
    ]  # fmt: skip
    groups = [
        (title, [(time_text(g.time), share_text(g.time, roofline.time), f"{g.flops:,}", bytes_text(g.bytes),
                  f"{g.instructions:,}", g.name or "(none)") for g in rows[:_MOST_ROWS]])
        for title, rows in (("source line", roofline.by_source()), ("scope", roofline.by_scope()))
    ]  # fmt: skip
    parts = [
        f"<h2>Roofline of one core of {roofline.peaks.target}</h2>",
        f"<p>At least {time_text(roofline.time)}: {bounds or 'nothing to do'}.</p>",
        _image(roofline),
        _table(("time", "share", "bound by", "instruction", "opcode", "runs", "FLOPs", "bytes",
                "FLOPs/byte", "source", "scope"), work, 2),
        _more(len(roofline.work)),
    ]  # fmt: skip
    for title, rows in groups:
        parts.append(f"<h2>By {title}</h2>")
        parts.append(_table(("time", "share", "FLOPs", "bytes", "instructions", title), rows, 5))
    return parts


def _image(roofline: Roofline) -> str:
    """FLOPs a second that each instruction can reach, by its FLOPs a byte; both logarithmic."""
    dots = [w for w in roofline.work if w.intensity > 0 and w.time > 0][:_MOST_DOTS]
    if not dots:
        return ""
    roof = roofline.peaks.tensor[16]
    low = min(-2.0, math.floor(math.log10(min(w.intensity for w in dots))))
    high = max(4.0, math.ceil(math.log10(max(w.intensity for w in dots))))
    floor = math.log10(roofline.peaks.bandwidth) + low
    top = math.log10(max(roofline.peaks.tensor.values())) + 0.2

    def point(intensity: float, rate: float) -> tuple[float, float]:
        across = (math.log10(intensity) - low) / (high - low)
        up = max(0.0, (math.log10(rate) - floor) / (top - floor))
        return _LEFT + across * (_WIDTH - _LEFT), (_HEIGHT - _BOTTOM) * (1 - up)

    corner = point(roofline.peaks.ridge, roof)
    start, end = point(10**low, roofline.peaks.bandwidth * 10**low), point(10**high, roof)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (start, corner, end))
    longest = dots[0].time
    marks: list[str] = []
    for w in dots:
        x, y = point(w.intensity, w.flops / w.time)
        title = f"%{w.instruction}: {w.intensity:.2f} FLOPs/byte, {time_text(w.time)}, {w.bound}"
        radius = 2 + 8 * math.sqrt(w.time / longest)
        marks.append(f"<circle class=dot cx={x:.1f} cy={y:.1f} r={radius:.1f}><title>{escape(title)}</title></circle>")  # fmt: skip
    ticks = "".join(
        f"<text x={point(10.0**n, 1e12)[0]:.0f} y={_HEIGHT - 8}>1e{n}</text>"
        for n in range(int(low), int(high))
    )
    return (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img aria-label='FLOPs a second over FLOPs a byte'>"
        f"<polyline class=roof points='{line}' />{''.join(marks)}{ticks}"
        f"<text x={end[0] - 8:.0f} y={end[1] - 4:.0f} text-anchor=end>{roof / 1e12:.0f} TFLOP/s "
        f"(16 bit)</text></svg>"
    )


def _named(pairs: Iterable[tuple[str, int]]) -> list[tuple[str, str]]:
    return [(bytes_text(size), name or "(none)") for name, size in pairs][:_MOST_ROWS]


def _part(name: str, index: tuple[int, ...]) -> str:
    return f"%{name}" + (f"{{{','.join(map(str, index))}}}" if index else "")


def _more(count: int) -> str:
    return f"<p>{count - _MOST_ROWS:,} more</p>" if count > _MOST_ROWS else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> str:
    """Rows whose first columns are numbers."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if column < numbers else ''}>{escape(cell)}</{tag}>"
            for column, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', columns)}</tr>{body}</table>"
