"""Decoded streams on the model: the intervals, latencies and waits that others measured on trn2.

The figures in the rows are those of docs/timing.md: medians of decoded device profiles.
"""

from __future__ import annotations

import pytest

from neff.errors import NeffError
from neff.timing import Event, StreamInstruction, read_stream, replay, replay_total

HEADER = "# index engine opcode detail src dst elements bytes waits_on | start duration waited\n"


def stream(*rows: str) -> list[Event]:
    """Events of a stream whose rows are cells without their index."""
    lines = [f"{number}\t" + "\t".join(row.split()) for number, row in enumerate(rows)]
    return replay(read_stream([HEADER, *lines]))


def of(events: list[Event], index: int, opcode: str = "") -> Event:
    """The event of an instruction on its engine."""
    own_events = [e for e in events if e.source == index and not e.lane.startswith(("dma", "desc"))]
    return own_events[0]


REDUCE = "Vector TENSOR_REDUCE op=MAX fp32@P fp32@S 512 - -"


@pytest.mark.parametrize(
    ("row", "measured"),
    [
        (REDUCE, 679),
        ("Vector TENSOR_REDUCE op=ADD fp32@S fp32@S 512 - -", 685),
        ("Vector COPY - fp32@P fp32@S 512 - -", 690),
        ("Vector COPY - fp32@P fp32@S 128 - -", 291),
        ("Vector TENSOR_SCALAR ops=MULTIPLY,BYPASS fp32@S fp32@S 512 - -", 481),
        ("Vector TENSOR_SCALAR ops=MULTIPLY,BYPASS fp32@P fp32@S 128 - -", 349),
        ("Vector RECIPROCAL - fp32@S fp32@S 4 - -", 173),
        ("Vector RECIPROCAL - fp32@S fp32@S 8 - -", 202),
        ("Vector TENSOR_REDUCE op=MAX fp32@S fp32@S 4 - -", 157),
        ("Scalar COPY - fp32@P fp32@S 512 - -", 585),
        ("Scalar CAST - fp32@P bfloat16@S 128 - -", 265),
        ("Scalar ACTIVATE EXP fp32@P fp32@S 512 - -", 685),
        ("Scalar ACTIVATE EXP fp32@S fp32@S 512 - -", 707),
        ("Scalar ACT_TABLE_LOAD - - - - - -", 1283),
        ("Sync DMA_DIRECT2D - H S - 128x512 -", 545),
    ],
)
def test_latency_of_single_instructions(row: str, measured: float) -> None:
    event = of(stream(row), 0)
    assert event.end - event.start == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(
    ("row", "measured"),
    [
        (REDUCE, 598),
        ("Vector TENSOR_SCALAR ops=MULTIPLY,BYPASS fp32@S fp32@S 512 - -", 396),
        ("Scalar COPY - fp32@P fp32@S 512 - -", 483),
        ("Scalar CAST - bfloat16@P fp32@S 128 - -", 157),
        ("Scalar ACTIVATE EXP fp32@P fp32@S 512 - -", 570),
        ("Scalar ACTIVATE EXP fp32@S fp32@S 512 - -", 612),
        ("Sync DMA_DIRECT2D - H S - 128x256 -", 590),
        ("GpSimd DMA_DIRECT2D - H S - 128x2048 -", 580),
    ],
)
def test_interval_of_single_instructions(row: str, measured: float) -> None:
    events = stream(row, row)
    assert of(events, 1).start - of(events, 0).start == pytest.approx(measured, rel=0.05)


WEIGHTS = "Tensor LDWEIGHTS transpose_mode=DISABLED bfloat16@S - 128 - -"
WEIGHTS_32 = "Tensor LDWEIGHTS fp32_mode=LOW bfloat16@S - 128 - -".replace("bfloat16", "fp32")


@pytest.mark.parametrize(("columns", "interval", "latency"), [(512, 215.5, 379), (128, 55.5, 219)])
def test_warm_matmuls_hide_their_weights(columns: int, interval: float, latency: float) -> None:
    matmul = f"Tensor MATMUL acc_flags=3 bfloat16@S @P {columns} - -"
    count = 8000 // columns
    events = stream(
        *[WEIGHTS, "Tensor MATMUL acc_flags=3 bfloat16@S @P 512 - -"] * 40, *[matmul] * count
    )
    first, second = of(events, 80 + count - 2), of(events, 80 + count - 1)
    assert second.start - first.start == pytest.approx(interval, rel=0.05)
    assert second.end - second.start == pytest.approx(latency, rel=0.05)


def test_one_pass_of_a_warm_fp32_matmul() -> None:
    matmul = "Tensor MATMUL fp32_mode=LOW_HIGH fp32@S @P 512 - -"
    events = stream(*[WEIGHTS_32, matmul] * 20)
    loads = of(events, 36)
    assert loads.end - loads.start == pytest.approx(191, rel=0.05)
    assert of(events, 39).start - of(events, 37).start == pytest.approx(428.5, rel=0.05)
    assert of(events, 39).end - of(events, 39).start == pytest.approx(591, rel=0.05)
    cold = of(events, 3)
    assert cold.end - cold.start == pytest.approx(1060, rel=0.05)


@pytest.mark.parametrize(("pauses", "latency"), [(0, 379), (1, 379), (2, 630)])
def test_a_long_pause_makes_the_tensor_engine_cold(pauses: int, latency: float) -> None:
    """Each transfer between is a pause of two microseconds; a window is 3.4."""
    matmul = "Tensor MATMUL - bfloat16@S @P 512 - {}"
    rows = [matmul.format("-")] * 40
    for _ in range(pauses):
        rows.append(f"Sync DMA_DIRECT2D - H S - 128x512 {len(rows) - 1}")
    last = of(stream(*rows, matmul.format(len(rows) - 1)), len(rows))
    assert last.end - last.start == pytest.approx(latency, rel=0.05)


def test_waiting() -> None:
    events = stream(REDUCE, "Scalar COPY - fp32@P fp32@S 512 - 0")
    assert of(events, 1).start - of(events, 0).end == pytest.approx(36)
    assert of(events, 1).waits_for == events.index(of(events, 0))
    assert of(events, 1).since == 0


def test_a_small_isolated_transfer_costs_two_microseconds() -> None:
    """2.0 to 2.4 us from its issue to the instruction that waits for it."""
    events = stream("Sync DMA_DIRECT2D - H S - 128x512 -", "Scalar COPY - fp32@S fp32@S 128 - 0")
    assert 2000 <= of(events, 1).start <= 2400


def span(*rows: str) -> float:
    moved = [event for event in stream(*rows) if event.lane.startswith("dma")]
    return max(event.end for event in moved) - min(event.start for event in moved)


def test_spans_of_transfers() -> None:
    assert span("Sync DMA_DIRECT2D - H S - 128x512 -") == pytest.approx(425, rel=0.1)
    assert span("GpSimd DMA_DIRECT2D - H S - 128x4096 -") == pytest.approx(1432, rel=0.05)
    transfers = ["GpSimd DMA_DIRECT2D - H S - 128x2048 -"] * 3
    assert span(*transfers) == pytest.approx(3232, rel=0.1)


def test_total_of_a_stream_is_when_its_last_transfer_was_seen() -> None:
    rows = ["0 GpSimd DMA_DIRECT2D - S H - 4x512 -", "1 Vector COPY - fp32@P fp32@S 4 - -"]
    stream = read_stream(["\t".join(row.split()) for row in rows])
    total = replay_total(stream)
    last = max(event.end for event in replay(stream))
    assert total.value == pytest.approx(last + 415 - 35)
    assert total.low < total.value < total.high


def test_rows_of_a_store_are_those_of_each_partition() -> None:
    moved = [e for e in stream("GpSimd DMA_DIRECT2D - S H - 4x512 -") if e.lane.startswith("dma")]
    assert moved[0].nbytes == 128 * 4 * 512


def test_an_instruction_without_elements_still_takes_time() -> None:
    for row in ("Sync NOP - - - - - -", "Vector SET_ORDERING_MODE - - - - - -"):
        event = of(stream(row), 0)
        assert event.end > event.start


def test_what_a_stream_reads_alone_decides() -> None:
    """The figures behind | are for comparing."""
    row = "0\tVector\tCOPY\t-\tfp32@P\tfp32@S\t512\t-\t-"
    assert read_stream([row]) == read_stream([f"{row}\t|\t17\t690\t0"])


@pytest.mark.parametrize("line", ["0\tVector", "x\tVector\tCOPY\t-\t-\t-\t4\t-\t-"])
def test_a_line_that_is_no_instruction(line: str) -> None:
    with pytest.raises(NeffError) as caught:
        read_stream([line])
    assert caught.value.code == "NEFF-STREAM"
    assert "line 1" in str(caught.value)


def test_columns_may_be_missing_and_instructions_in_front_are_done() -> None:
    rows = ["7\tDVE\tCOPY\t-\tfp32@P\tfp32@S\t512", "8\tACT\tCOPY\t-\tfp32@P\tfp32@S\t512\t-\t2,7",
            "9\tSP\tNOP\t|\t17\t9\t0"]  # fmt: skip
    short = replay(read_stream(rows))
    complete = replay(read_stream([
        "0\tVector\tCOPY\t-\tfp32@P\tfp32@S\t512\t-\t-", "1\tScalar\tCOPY\t-\tfp32@P\tfp32@S\t512\t-\t0",
        "2\tSync\tNOP\t-\t-\t-\t-\t-\t-",
    ]))  # fmt: skip
    assert [event[1:-1] for event in short] == [event[1:-1] for event in complete]


def test_bytes_without_rows_are_one_row() -> None:
    cells = ["0", "Sync", "DMA_DIRECT2D", "-", "H", "S", "-", "65536", "-"]
    stream = read_stream(["\t".join(cells)])
    assert (stream[0].rows, stream[0].row_bytes) == (1, 65536)


def test_an_unknown_opcode_has_an_assumed_cost_and_a_warning() -> None:
    strange = StreamInstruction(0, "Vector", "SHUFFLE", "", "fp32@S", "fp32@S", 512)
    with pytest.warns(UserWarning, match="assumed costs: Vector SHUFFLE"):
        total = replay_total([strange])
    copy = replay_total([StreamInstruction(0, "Vector", "COPY", "", "fp32@P", "fp32@S", 512)])
    assert total.value == copy.value and total.low < copy.low and total.high > 3 * copy.value
    with pytest.warns(UserWarning):
        assert replay([strange])[0].measured_share < 0.5


@pytest.mark.parametrize(
    ("row", "cycles"),
    [
        ("Vector TENSOR_REDUCE op=MAX bfloat16@S fp32@S 512 - -", 0.5),
        ("Vector TENSOR_REDUCE op=MIN bfloat16@S fp32@S 512 - -", 1.0),
        ("Vector TENSOR_REDUCE op=MAX fp32@S fp32@S 512 - -", 1.0),
        ("Vector TENSOR_TENSOR op=ADD bfloat16@S,bfloat16@S bfloat16@S 512 - -", 1.0),
        ("Vector TENSOR_TENSOR op=ADD bfloat16@S,bfloat16@S fp32@S 512 - -", 1.68),
        ("Vector TENSOR_TENSOR op=MAX bfloat16@S,bfloat16@S bfloat16@S 512 - -", 1.68),
    ],
)
def test_short_types_are_as_fast_as_in_a_program(row: str, cycles: float) -> None:
    """isa 2.26:1605 and 1803, as neff.timing.lowering has them."""
    event = stream(row)[0]
    assert event.end - event.start == pytest.approx((512 * cycles + 145) / 0.96)


@pytest.mark.parametrize(
    "instruction",
    [
        StreamInstruction(0, "Vektor", "COPY", elements=4),
        StreamInstruction(0, "Vector", "COPY", elements=4, waits_on=(7,)),
    ],
)
def test_an_unknown_engine_or_index(instruction: StreamInstruction) -> None:
    with pytest.raises(NeffError) as caught:
        replay([instruction])
    assert caught.value.code == "NEFF-STREAM"


def test_an_index_that_comes_twice() -> None:
    with pytest.raises(NeffError) as caught:
        replay([StreamInstruction(3, "Vector", "COPY", elements=4)] * 2)
    assert caught.value.code == "NEFF-STREAM" and "index 3" in str(caught.value)
