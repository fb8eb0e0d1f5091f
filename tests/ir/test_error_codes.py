"""Codes of errors that no other test names: each from the shortest input that leads to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hlo_tools import errors, schema
from hlo_tools.cli.shared.failures import report
from hlo_tools.errors import HloError
from hlo_tools.extract.python_file import load_named
from hlo_tools.inference.types import InferenceError
from hlo_tools.rewrite.errors import PassError
from hlo_tools.text import parse
from hlo_tools.text.recovery import print_recovery_table
from hlo_tools.trace import trace
from hlo_tools.trace.errors import TraceError
from hlo_tools.trace.kernel import NKIPyKernel
from hlo_tools.types.literal import Literal
from hlo_tools.types.replica_groups import replica_groups_of
from nki_lang.base.errors import NkiError, NkiValidationError

HEAD = "HloModule m\nENTRY e {\n  x = f32[4]{0} parameter(0)\n"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("HLO-TEXT-OPCODE", "ROOT r = f32[4]{0} negat(x)"),
        ("HLO-TEXT-OPERAND", "ROOT r = f32[4]{0} negate(y)"),
        ("HLO-TEXT-OPERAND", "ROOT r = f32[4]{0} add(x, f32[4]{0} y)"),
        ("HLO-TEXT-ATTRIBUTE", "ROOT r = f32[4]{0} negate(x), dimensions={0}"),
        ("HLO-TEXT-ATTRIBUTE", "ROOT r = f32[4]{0} transpose(x)"),
    ],
)
def test_text(code: str, line: str) -> None:
    with pytest.raises(HloError) as caught:
        parse(f"{HEAD}  {line}\n}}\n")
    assert caught.value.code == code and ":4:" in caught.value.place


def leaked() -> None:
    leaked_values: list[object] = []
    trace(lambda a: leaked_values.append(a) or a, np.ones(3, np.float32))
    trace(lambda a: a + leaked_values[0], np.ones(3, np.float32))


def groups() -> None:
    instruction = schema.HloInstructionProto()
    groups = instruction.iota_collective_device_list
    groups.num_replica_groups = groups.num_devices_per_group = 2
    groups.iota_reshape_dims.append(3)
    replica_groups_of(instruction)


def nested() -> None:
    table = schema.OriginalValueRecoveryTableProto()
    inner = table.entries.add().recovery_module
    inner.original_value_recovery_table = b"x"
    print_recovery_table(table.SerializeToString(), str)


def tuple_literal() -> None:
    proto = schema.LiteralProto()
    proto.shape.element_type = schema.PrimitiveType.TUPLE
    Literal(proto).numpy()


CALLS: list[tuple[str, Callable[[], object]]] = [
    ("HLO-TRACE-LEAK", leaked),
    ("HLO-TRACE-BACKEND", lambda: NKIPyKernel(leaked, "nothing")),
    ("HLO-NO-NAME", lambda: load_named(f"{__file__}:nothing")),
    ("HLO-REPLICA-GROUPS", groups),
    ("HLO-NESTED", nested),
    ("HLO-LITERAL", tuple_literal),
]


@pytest.mark.parametrize(("code", "call"), CALLS, ids=[code for code, _ in CALLS])
def test_calls(code: str, call: Callable[[], object]) -> None:
    with pytest.raises(HloError) as caught:
        call()
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("HLO-ERROR", errors.HloError),
        ("HLO-FILE", errors.HloFileError),
        ("HLO-VERIFY", errors.HloVerifyError),
        ("HLO-UNSUPPORTED", errors.HloUnsupportedError),
        ("HLO-SHAPE", InferenceError),
        ("HLO-PASS", PassError),
        ("HLO-TRACE", TraceError),
        ("NKI-ERROR", NkiError),
        ("NKI-INVALID", NkiValidationError),
    ],
)
def test_errors_without_a_code_of_their_own(code: str, kind: type[HloError]) -> None:
    assert kind("what is wrong").code == code


def test_out_of_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(MemoryError()) == 3
    assert "HLO-MEMORY" in capsys.readouterr().err
