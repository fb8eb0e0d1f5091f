"""The page: what is in it, that nothing is fetched, and that it opens in a browser."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neff import write
from neff.cli import main
from neff.profile import Profile, profile_of
from neff.profile.counters import counters
from neff.profile.page import render_page
from neff.profile.page.columns import NAMES, columns_of
from neff.profile.page.curves import _fewer as fewer
from neff.profile.page.curves import counter_rows, loop_rows
from tests.neff.programs import counted
from tests.profile.programs import line_of, matmul, softmax
from tests.profile.slow_kernels import PAIRS

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def columns(profile: Profile) -> dict[str, np.ndarray[Any, Any]]:
    """The packed columns as the page's program reads them."""
    packed_columns = columns_of(profile)
    raw = np.frombuffer(zlib.decompress(base64.b64decode(packed_columns.packed), -15), np.uint8)
    planes = raw.reshape(len(NAMES), 4, packed_columns.count)
    numbers = np.ascontiguousarray(planes.transpose(0, 2, 1)).view("<i4")[..., 0]
    return dict(zip(NAMES, numbers, strict=True))


def test_columns_hold_every_event() -> None:
    profile = profile_of(matmul())
    events = profile.estimate.cores[0].events
    table, raw_columns = columns_of(profile), columns(profile)
    start_row, rows = 0, []
    for _, lane, _, count in table.tracks:
        starts = np.cumsum(raw_columns["start"][start_row : start_row + count])
        for k, start in enumerate(starts, start_row):
            opcode = table.opcodes[raw_columns["opcode"][k]]
            rows.append(
                (
                    lane,
                    opcode,
                    int(start),
                    int(raw_columns["length"][k]),
                    int(raw_columns["bytes"][k]),
                )
            )
        start_row += count
    expected = [
        (
            "tensor weights" if event.opcode == "load_weights" else event.lane,
            event.opcode,
            round(event.start),
            round(event.end) - round(event.start),
            event.nbytes,
        )
        for event in events
    ]
    assert sorted(rows) == sorted(expected)


def test_waits_lead_to_the_event_that_was_waited_for() -> None:
    profile = profile_of(softmax())
    events = profile.estimate.cores[0].events
    table, raw_columns = columns_of(profile), columns(profile)
    opcodes = [table.opcodes[number] for number in raw_columns["opcode"]]
    waits = sorted(
        (opcodes[k], opcodes[k - step]) for k, step in enumerate(raw_columns["waits"]) if step
    )
    expected = sorted((e.opcode, events[e.waits_for].opcode) for e in events if e.waits_for >= 0)
    assert expected
    assert waits == expected


def test_the_page_holds_source_advice_and_nothing_from_elsewhere() -> None:
    page = render_page([profile_of(PAIRS["two_passes"].slow())], root=Path(__file__).parent)
    match = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    (document,) = json.loads(match[1])["profiles"]
    assert [advice["code"] for advice in document["advice"]] == ["PERF-HBM-ROUND-TRIP"]
    (lines,) = document["sources"].values()
    assert any("activation" in line for line in lines)
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", page)
    assert "default-src 'none'" in page


def test_text_of_a_program_does_not_end_the_script_element() -> None:
    program = softmax()
    program.name = "</script><b>"
    page = render_page([profile_of(program)])
    assert "</script><b>" not in page


def test_two_profiles_in_one_page(tmp_path: Path) -> None:
    pair = PAIRS["functions_in_turn"]
    write(pair.slow(), tmp_path / "old.neff")
    write(pair.mended(), tmp_path / "new.neff")
    words = ["profile", str(tmp_path / "new.neff"), "--compare", str(tmp_path / "old.neff")]
    assert main([*words, "-o", str(tmp_path)]) == 0
    page = (tmp_path / "profile.html").read_text()
    assert '"role":"old"' in page
    assert '"role":"new"' in page


def test_a_source_outside_of_the_root_is_not_in_the_page(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    profile = profile_of(softmax())
    sites = tuple(site._replace(file="../secret.py") for site in profile.sites)
    (tmp_path / "secret.py").write_text("password = 1\n" * 100)
    object.__setattr__(profile, "sites", sites)
    assert "password" not in render_page([profile], root=tmp_path / "inside")


def test_counters_are_those_of_the_trace() -> None:
    profile = profile_of(softmax())
    rows = {str(row["name"]): row for row in counter_rows(profile, 1.0)}
    assert {"SBUF", "DMA bandwidth", "vector", "scalar", "sync"} <= set(rows)
    assert "PSUM" not in rows  # nothing is held there
    (all_counters,) = counters(profile)
    for counter in all_counters:
        if any(value for _, value in counter.samples):
            row = rows[counter.name.removesuffix(" utilisation")]
            assert list(zip(row["at"], row["values"], strict=True)) == counter.samples  # type: ignore[call-overload]
    assert rows["SBUF"]["full"] == 128 * 212_984
    assert max(rows["vector"]["values"]) <= rows["vector"]["full"] == 1000  # type: ignore[call-overload]


def test_a_long_counter_keeps_the_peak_of_each_part() -> None:
    samples = [(number, number % 7) for number in range(0, 100_000, 3)] + [(100_000, 0)]
    shortened = fewer(samples)
    assert len(shortened) <= 2002
    assert shortened[-1] == samples[-1]
    width = 100_000 / 2000
    for time, value in shortened[1:-1:97]:
        within = [v for t, v in samples if time - 4 <= t < time + width + 1]
        assert value == max(within)


def test_loops_say_how_many_iterations_are_not_drawn() -> None:
    profile = profile_of(counted(100))
    ((core, start, end, iterations, until),) = loop_rows(profile, 1.0)
    events = [event for event in profile.estimate.cores[0].events if event.turns > 1]
    assert (core, iterations) == (0, 99)
    assert (start, end) == (
        round(min(event.start for event in events)), round(max(event.end for event in events)),
    )  # fmt: skip
    assert until == round(profile.estimate.total.value)
    assert until - start >= 90 * (end - start) / 2
    assert loop_rows(profile_of(softmax()), 1.0) == []


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
@pytest.mark.parametrize("tab", ["timeline", "advice", "source", "tables", "memory", "roofline"])
def test_each_tab_opens_in_a_browser(tab: str, tmp_path: Path) -> None:
    page = tmp_path / "profile.html"
    page.write_text(render_page([profile_of(softmax())], root=Path(__file__).parent))
    words = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    words += ["--virtual-time-budget=5000", f"--user-data-dir={tmp_path / 'browser'}"]
    done = subprocess.run(
        [*words, f"{page.as_uri()}#{tab}"], capture_output=True, text=True, timeout=120, check=True
    )
    assert "data-ready=" in done.stdout
    shown = re.search(rf'<section id="{tab}" class="on">(.*?)</section>', done.stdout, re.DOTALL)
    assert shown is not None
    expected = {
        "timeline": "critical path", "advice": "No rule found", "source": "activation_reduce",
        "tables": f"programs.py:{line_of('nisa.reciprocal(')}", "memory": "tensors held then",
        "roofline": "share of the roof",
    }  # fmt: skip
    assert expected[tab] in shown[1]


def test_several_programs_in_one_page_are_no_comparison() -> None:
    page = render_page([profile_of(softmax()), profile_of(matmul())])
    assert '"comparison":false' in page
    assert '"role":"2"' in page
