"""The installed jaxlib writes nothing that this version does not read, known gaps apart."""

from __future__ import annotations

import pytest

from tests.suites.xla.newer import jaxlib_opcodes, missing_here

pytestmark = pytest.mark.xla_text

UNREAD_OPCODES = {"shuffle"}
"""An opcode of jaxlib 0.12 without published semantics; it is refused as a newer one."""
UNREAD_ATTRIBUTES = {"block_scaling_config"}
"""An attribute of products in jaxlib 0.12; a module with it is refused (field 101)."""


def test_every_opcode_and_attribute_of_jaxlib_is_read() -> None:
    unknown, lacking, unexamined = missing_here()
    assert set(unknown) <= UNREAD_OPCODES
    assert {name for names in lacking.values() for name in names} <= UNREAD_ATTRIBUTES
    assert len(unexamined) <= 6, unexamined
    assert len(jaxlib_opcodes()) >= 133
