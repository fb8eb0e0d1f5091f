"""``nki-hlo stats --layers``: what it prints."""

from __future__ import annotations

from dataclasses import asdict

from hlo_tools.cli.shared import console
from hlo_tools.stats.layers import PASSES, Layer
from hlo_tools.stats.units import bytes_text, share_text, time_text

__all__ = ["layer_json", "print_layers"]

MAX_INDENT = 12
"""Deeper layers are printed at this depth."""


def print_layers(root: Layer, top: int) -> None:
    """One row for each layer, the inner ones indented, with the share of each pass."""
    console.line()
    rows: list[tuple[object, ...]] = []
    layers = list(root.walk())
    for depth, layer in layers[: top + 1]:
        total = layer.total
        rows.append((
            f"{'  ' * min(depth, MAX_INDENT)}{layer.name or 'module'}",
            time_text(total.time),
            share_text(total.time, root.total.time),
            f"{total.flops:,}",
            *(f"{layer.passes[name].flops:,}" for name in PASSES),
            f"{total.bytes:,}",
            bytes_text(layer.peak_bytes),
        ))  # fmt: skip
    console.table(("layer", "time", "share", "FLOPs", *PASSES, "bytes", "alive at the peak"), rows)
    if len(layers) > top + 1:
        more = console.counted(len(layers) - top - 1, "layer more", "layers more")
        console.line(f"{more}: --top, or --depth for fewer levels")


def layer_json(layer: Layer) -> dict[str, object]:
    """A layer and those inside of it, the most time first; times in seconds."""
    inner = sorted(layer.layers.values(), key=lambda inner: (-inner.total.time, inner.name))
    return {
        "name": layer.name,
        "path": layer.path,
        **asdict(layer.total),
        "passes": {name: asdict(cost) for name, cost in layer.passes.items()},
        "peak_bytes": layer.peak_bytes,
        "layers": [layer_json(inner_layer) for inner_layer in inner],
    }
