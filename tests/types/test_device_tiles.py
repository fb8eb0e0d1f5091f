"""Shardings laid out: beside JAX's own map of devices to indices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hlo_tools import HloError, load
from hlo_tools.cli import main
from hlo_tools.types.device_tiles import Spread, spread_of

MODULE = """HloModule m

ENTRY main {{
  x = f32[{dims}] parameter(0), sharding={sharding}
  ROOT y = f32[{dims}] negate(x)
}}
"""


def spread(dims: str, sharding: str) -> Spread:
    view = load(MODULE.format(dims=dims, sharding=sharding).encode()).entry.parameters[0]
    assert view.sharding is not None
    return spread_of(view.sharding, view.shape.dimensions)


@pytest.mark.parametrize("transposed", [False, True])
def test_tiles_and_copies(transposed: bool) -> None:
    iota = "[2,4]T(1,0)" if transposed else "[8]"
    layout = spread("10,6", f"{{devices=[4,1,2]<={iota} last_tile_dim_replicate}}")
    assert layout.parts == (4, 1)
    pairs = [(0, 4), (1, 5), (2, 6), (3, 7)] if transposed else [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert [tile.devices for tile in layout.tiles] == pairs
    assert [tile.ranges[0] for tile in layout.tiles] == [(0, 3), (3, 6), (6, 9), (9, 10)]


def test_axes_of_a_mesh_and_parts_of_them() -> None:
    layout = spread("8,8", "{mesh[a=2,b=4], [{b}, {a}]}")
    assert layout.parts == (4, 2)
    assert [tile.devices for tile in layout.tiles] == [
        (0,),
        (4,),
        (1,),
        (5,),
        (2,),
        (6,),
        (3,),
        (7,),
    ]
    layout = spread("8,8", "{mesh[a=2,b=4], [{b:(1)2}, {}]}")
    assert layout.parts == (2, 1)
    assert [tile.devices for tile in layout.tiles] == [(0, 1, 4, 5), (2, 3, 6, 7)]


@pytest.mark.parametrize("word", ["replicated", "manual", "unknown"])
def test_words(word: str) -> None:
    assert spread("4", f"{{{word}}}").kind == word


def test_one_device() -> None:
    (tile,) = spread("4", "{maximal device=3}").tiles
    assert (tile.devices, tile.ranges) == ((3,), ((0, 4),))


def test_what_does_not_fit_is_refused() -> None:
    view = load(MODULE.format(dims="4,4", sharding="{devices=[2]<=[2]}").encode()).entry.root
    sharding = view.operands[0].sharding
    assert sharding is not None
    with pytest.raises(HloError) as caught:
        spread_of(sharding, (4, 4))
    assert caught.value.code == "HLO-SHARDING"


SCRIPT = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import json, jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
found = []
for shape, spec in [((8, 4, 16), P("a", None, "b")), ((16, 8), P(("b", "a"))), ((8, 8), P(None, "b")),
                    ((8, 16), P(("a", "b"), None))]:
    for devices in (np.arange(8).reshape(2, 4), np.arange(8).reshape(4, 2).T):
        mesh = Mesh(np.array(jax.devices())[devices], ("a", "b"))
        sharding = NamedSharding(mesh, spec)
        indices = sharding.devices_indices_map(shape)
        order = list(mesh.devices.flat)  # partitions are numbered as the mesh has them
        text = jax.jit(lambda x: -x, in_shardings=sharding).lower(
            jax.ShapeDtypeStruct(shape, "float32")).compiler_ir("hlo").as_hlo_module()
        found.append([text.as_serialized_hlo_module_proto().hex(), [
            [[s.start or 0, s.stop if s.stop is not None else n] for s, n in zip(indices[d], shape)]
            for d in order]])
print(json.dumps(found))
"""


@pytest.mark.jax
def test_like_jax() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    cases = json.loads(done.stdout)
    assert len(cases) == 8
    for data, expected in cases:
        view = load(bytes.fromhex(data)).entry.parameters[0]
        assert view.sharding is not None
        layout = spread_of(view.sharding, view.shape.dimensions)
        by_device = {device: tile.ranges for tile in layout.tiles for device in tile.devices}
        assert [[list(tile_range) for tile_range in by_device[n]] for n in range(8)] == expected


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.hlo"
    sharding = "{devices=[2,2,2]<=[8] last_tile_dim_replicate}"
    path.write_text(MODULE.format(dims="8,6", sharding=sharding))
    assert main(["sharding", str(path)]) == 0
    text = capsys.readouterr().out
    assert "4 parts of f32[4,3], 2 devices each" in text
    assert "[4:8, 0:3]  4, 5" in text
    assert main(["sharding", str(path), "--json"]) == 0
    (array,) = json.loads(capsys.readouterr().out)["arrays"]
    assert array["spread"]["tiles"][3]["devices"] == [6, 7]
    page = tmp_path / "page.html"
    assert main(["sharding", str(path), "-o", str(page)]) == 0
    assert page.read_text().count("<td") == 4
    assert main(["sharding", str(path), "-o", "page.txt"]) == 2
    assert main(["sharding", str(path), "-i", "y"]) == 0
    assert "has a sharding" in capsys.readouterr().err
