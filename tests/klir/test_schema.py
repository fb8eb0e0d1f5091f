"""The schema, its readers and writers, and that the operator table fits it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nki_lang.isa.table import TABLE
from nki_lang.klir import schema, table


def values(type_: str, depth: int = 0) -> Any:
    """Random nodes of a type."""
    outer, inner = schema._split(type_)
    if outer == "List":
        return st.lists(values(inner, depth + 1), max_size=2)
    if outer == "Option":
        return st.none() if depth > 12 else st.none() | values(inner, depth + 1)
    plain = {
        "Bool": st.booleans(),
        "Nat": st.integers(0, 1 << 40),
        "Reg": st.integers(0, 64),
        "Int": st.integers(-(1 << 40), 1 << 40),
        "Int32": st.integers(-(1 << 31), (1 << 31) - 1),
        "String": st.text(max_size=5),
        "Float32": st.floats(width=32, allow_nan=False),
        "Float": st.floats(allow_nan=False),
    }
    if type_ in plain:
        return plain[type_]
    entry = schema._type(type_)
    if "fields" in entry:
        parts = [values(field_type, depth + 1) for field_type in schema.field_types(type_).values()]
        return st.tuples(*parts).map(schema.node(type_)._make)
    choices = []
    for name in schema.constructors(type_)[: 1 if depth > 8 else None]:
        types = schema.field_types(type_, name)
        if "Foreign" in types.values():
            continue
        if not types:
            choices.append(st.just(name))
            continue
        parts = [values(element_type, depth + 1) for element_type in types.values()]
        choices.append(st.tuples(*parts).map(schema.node(type_, name)._make))
    return st.one_of(choices)


@pytest.mark.parametrize("operator", schema.constructors("Operator"))
def test_every_operator_comes_back(operator):
    @settings(
        max_examples=4, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(values(table._structure(operator)))
    def check(node):
        type_ = table._structure(operator)
        data = schema.writer(type_)(node)
        back, end = schema.reader(type_)(data, 0, schema.ReadState())
        assert (back, end) == (node, len(data))
        assert schema.writer(type_)(back) == data

    check()


def test_the_head_of_a_file():
    version = schema.writer("KLRFile")(schema.node("KLRFile")(*schema.version()))
    name = schema.writer("KLRMetaData")(schema.node("KLRMetaData")("NKI"))
    assert (version + name).hex() == "d9d9f78300000c" + "d9eb0081634e4b49"
    assert schema.head("Contents", "lnc").hex() == "d9ec0381"


def test_proofs_count_as_fields_and_take_no_bytes():
    assert schema.head("TensorName").hex() == "d9720088"
    assert len(schema.field_types("TensorName")) == 6
    slice_ = schema.node("Slice")(0, 4, 1)
    assert schema.writer("Slice")(slice_).hex() == "d9730084" + "000401"


def test_tags_tell_types_apart():
    entries = schema._schema()["types"]
    marks = [
        (entry["tag"], entry.get("constructor", 0))
        for name, entry in entries.items()
        if name != "Foreign"
    ]
    assert len(set(marks)) == len(marks)
    assert all(0 < tag < 255 for tag, _ in marks)


@pytest.mark.parametrize("row", table.ROW_OF_OP.values(), ids=lambda row: row.op)
def test_codecs_have_the_types_of_their_fields(row):
    types = list(schema.field_types(table._structure(row.operator)).values())
    assert [codec.type for codec, _ in row.fields] == types


def test_every_instruction_has_a_row_with_its_operands():
    without = {"topk", "all_gather_v", "all_to_all_v", "register_alloc"}
    for spec in TABLE.values():
        if spec.op in without:
            assert table.row_of(spec.op) is None
        else:
            assert table.ROW_OF_OP[spec.op].operands == spec.names, spec.op


def test_operators_of_two_rows_differ():
    operators = [row.operator for row in table.ROW_OF_OP.values()]
    assert len(set(operators)) == len(operators)


def test_an_unknown_constructor_is_named():
    with pytest.raises(schema.Damage, match="expected a Memory"):
        schema.reader("Memory")(bytes.fromhex("d96e0980"), 0, schema.ReadState())


def test_deep_accesses_are_refused():
    simple = schema.node("Access", "simple")
    address = schema.node("Address")("t", "sbuf", 1, 4, None, None, False)
    tensor = schema.node("TensorName")(
        "t", "float32", schema.node("Shape")(1, []), address, 1, True
    )
    node = simple(tensor)
    for _ in range(60):
        inner = schema.node("BirAccessPattern")(tensor, 0, [], None, node, 0, None)
        node = schema.node("Access", "birPattern")(inner)
    data = schema.writer("Access")(node)
    with pytest.raises(schema.Damage, match="deep"):
        schema.reader("Access")(data, 0, schema.ReadState())
