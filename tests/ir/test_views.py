"""Views: what they show, in both id schemes, and what editing keeps right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlo_tools
from hlo_tools import (
    Alias,
    HloError,
    HloFileError,
    Module,
    array_shape,
    literal_of,
    schema,
    tuple_shape,
)
from hlo_tools.evaluate import evaluate
from hlo_tools.text import parse
from hlo_tools.verify import verify
from tests.hlo_examples import F32, example, fill


def names(views: object) -> list[str]:
    return [view.name for view in views]  # type: ignore[attr-defined]


def test_walk(module: Module) -> None:
    assert names(module.computations) == ["region_0", "main"]
    assert module.entry.is_entry and not module.computations[0].is_entry
    root = module.entry.root
    assert root.name == "out" and root.is_root and root.opcode == "reduce"
    assert names(root.operands) == ["total", "one"]
    assert names(root.called_computations) == ["region_0"]
    assert names(module.computations[0].callers) == ["out"]
    assert names(module.entry.parameters) == ["x", "y"]
    assert names(module.entry.find("%one").users) == ["ones", "out"]
    assert len(list(module.instructions)) == 10


def test_id_schemes() -> None:
    assert Module(example("wide")).id_scheme == "wide"
    assert Module(example("legacy")).id_scheme == "legacy"
    assert Module(example("wide")).entry.root.id == 2 << 32 | 6
    assert Module(example("wide")).entry.root.local_id == 6


def test_repr_reads_like_hlo(module: Module) -> None:
    assert repr(module.entry.find("total")) == "%total = f32[2,3]{1,0} add(%product, %ones)"
    assert repr(module) == "<Module example: 2 computations>"
    small = Module(parse("HloModule m\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n"))
    assert repr(small) == "<Module m: 1 computation>"
    assert repr(small.entry) == "<Computation %e: 1 instruction>"


def test_one_instruction_has_one_view_also_after_touch(module: Module) -> None:
    view = module.entry.find("total")
    assert module.entry.root.operands[0] is view
    view.proto.frontend_attributes.map["k"] = "v"
    module.touch()
    assert module.entry.find("total") is view
    assert view.frontend_attributes["k"] == "v"


def test_literals() -> None:
    constant = Module(example()).entry.find("one")
    assert constant.literal is not None
    assert constant.literal.numpy() == np.float32(1)
    assert Module(example()).entry.find("x").literal is None


def test_source_through_stack_frames_and_inline() -> None:
    proto = example()
    index = proto.stack_frame_index
    index.file_names.extend(["a.py", "b.py"])
    index.function_names.append("outer")
    index.file_locations.add(file_name_id=1, function_name_id=1, line=7, column=3)
    index.file_locations.add(file_name_id=2, line=9)
    index.stack_frames.add(file_location_id=1)
    index.stack_frames.add(file_location_id=2, parent_frame_id=1)
    main = proto.computations[1].instructions
    main[4].metadata.stack_frame_id = 2
    main[5].metadata.source_file, main[5].metadata.source_line = "old.py", 12
    main[6].metadata.stack_frame_id = 99
    entry = Module(proto).entry
    assert [str(frame) for frame in entry.find("product").stack] == ["b.py:9", "a.py:7:3"]
    assert entry.find("product").stack[1].function == "outer"
    assert str(entry.find("total").source) == "old.py:12"
    assert entry.find("out").source is None and entry.find("x").source is None


def test_a_circle_of_stack_frames_ends() -> None:
    proto = example()
    proto.stack_frame_index.file_names.append("a.py")
    proto.stack_frame_index.file_locations.add(file_name_id=1, line=1)
    proto.stack_frame_index.stack_frames.add(file_location_id=1, parent_frame_id=1)
    proto.computations[1].instructions[0].metadata.stack_frame_id = 1
    assert len(Module(proto).entry.find("x").stack) == 1


def test_interned_payloads_are_resolved() -> None:
    proto = example()
    proto.payloads.append(b"config")
    proto.payloads.append(schema.OpMetadata(op_name="shared").SerializeToString())
    main = proto.computations[1].instructions
    main[4].backend_config_payload.id = 0
    main[4].metadata.metadata_payload.id = 1
    main[5].backend_config_payload.id = 9
    main[5].backend_config = b"own"
    entry = Module(proto).entry
    assert entry.find("product").backend_config == b"config"
    assert entry.find("product").metadata.op_name == "shared"
    with pytest.raises(HloFileError, match="shared payload 9 does not exist"):
        entry.find("total").backend_config


def test_custom_calls_by_target() -> None:
    module = Module(example())
    call = module.entry.add("custom-call", F32, custom_call_target="AwsNeuronCustomNativeKernel")
    module.entry.add("custom-call", F32, custom_call_target="Other")
    assert module.find_custom_calls() == [call]
    assert names(module.find_custom_calls("Other")) == ["custom-call.1"]


@pytest.mark.parametrize(
    ("break_it", "look", "code"),
    [
        (lambda p: p.computations[1].instructions[6].operand_ids.append(77),
         lambda m: m.entry.root.operands, "HLO-REFERENCE"),
        (lambda p: setattr(p.computations[1], "root_id", 77), lambda m: m.entry.root,
         "HLO-REFERENCE"),
        (lambda p: setattr(p, "entry_computation_id", 5), lambda m: m.entry, "HLO-REFERENCE"),
        (lambda p: setattr(p.computations[1].instructions[0], "id", 2 << 32 | 1),
         lambda m: m.entry.root, "HLO-DUPLICATE-ID"),
        (lambda p: setattr(p.computations[1], "id", 1), lambda m: m.computations,
         "HLO-DUPLICATE-ID"),
        (lambda p: p.computations[1].instructions[4].operand_ids.append(2 << 32 | 6),
         lambda m: m.entry.post_order(), "HLO-CYCLE"),
        (lambda p: None, lambda m: m.entry.find("none"), "HLO-NO-INSTRUCTION"),
        (lambda p: None, lambda m: m.computation("none"), "HLO-NO-COMPUTATION"),
    ],
)  # fmt: skip
def test_wrong_references(break_it: object, look: object, code: str) -> None:
    proto = example()
    break_it(proto)  # type: ignore[operator]
    with pytest.raises(HloError) as caught:
        look(Module(proto))  # type: ignore[operator]
    assert caught.value.code == code


def test_computations_in_order_and_circle() -> None:
    proto = example()
    proto.computations.sort(key=lambda c: -c.id)
    assert names(Module(proto).computations_in_order()) == ["region_0", "main"]
    proto.computations[1].instructions[2].called_computation_ids.append(2)
    with pytest.raises(HloFileError, match="depend on each other"):
        Module(proto).computations_in_order()


# Editing


def reload(module: Module) -> Module:
    return hlo_tools.load(module.to_bytes())


def test_add_and_rewire(module: Module) -> None:
    entry = module.entry
    product, total = entry.find("product"), entry.find("total")
    before = total.users
    negated = entry.add("negate", F32, [product], like=product)
    total.replace_operand(0, negated)
    assert product.users == (negated,) and negated.users == (total,) and total.users == before
    again = reload(module).entry
    assert names(again.find("total").operands) == ["negate", "ones"]
    order = names(again)
    assert order.index("product") < order.index("negate") < order.index("total")
    assert reload(module).id_scheme == module.id_scheme


def test_ids_stay_dense_and_in_their_scheme() -> None:
    for scheme, expected in (("wide", 2 << 32 | 7), ("legacy", 11)):
        module = Module(example(scheme))
        assert module.entry.add("negate", F32, [module.entry.find("x")]).id == expected


def test_replace_uses_of_the_root_and_with_a_user_of_itself(module: Module) -> None:
    entry = module.entry
    root = entry.root
    copy = entry.add("copy", root.shape, [root])
    root.replace_uses(copy)
    assert entry.root is copy and copy.operands == (root,)
    assert reload(module).entry.root.name == "copy"


def test_remove_and_what_refuses(module: Module) -> None:
    entry = module.entry
    spare = entry.add("negate", F32, [entry.find("total")])
    second = entry.add("abs", F32, [spare])
    with pytest.raises(HloError, match="%abs still uses it"):
        spare.remove()
    with pytest.raises(HloError, match="it is the root"):
        entry.root.remove()
    entry.remove_all({spare, second})
    assert names(entry.find("total").users) == ["out"]
    assert names(reload(module).entry) == names(Module(example()).entry)
    unused = entry.add("parameter", F32, parameter_number=2)
    with pytest.raises(HloError, match="it is a parameter"):
        unused.remove()


def test_undone_edit_writes_the_same_message(wide_bytes: bytes) -> None:
    module = hlo_tools.load(wide_bytes)
    total = module.entry.find("total")
    product = total.operands[0]
    module.entry.proto.program_shape.result.CopyFrom(module.entry.root.proto.shape)
    extra = module.entry.add("negate", F32, [product])
    total.replace_operand(0, extra)
    extra.replace_uses(product)
    extra.remove()
    computation, loaded = (
        module.proto.computations[1],
        hlo_tools.load(wide_bytes).proto.computations[1],
    )
    assert list(computation.instructions) == list(loaded.instructions)
    assert computation.root_id == loaded.root_id


def test_control_edges_survive_a_removal(module: Module) -> None:
    entry = module.entry
    first = entry.find("product")
    middle = entry.add("negate", F32, [entry.find("x")])
    last = entry.find("total")
    middle.proto.control_predecessor_ids.append(first.id)
    last.proto.control_predecessor_ids.append(middle.id)
    middle.remove()
    assert names(last.control_predecessors) == ["product"]


def test_schedule_follows() -> None:
    proto = example()
    sequence = proto.schedule.sequences[2]
    sequence.instruction_ids.extend(i.id for i in proto.computations[1].instructions)
    module = Module(proto)
    extra = module.entry.add("negate", F32, [module.entry.find("x")])
    module.entry.find("product").replace_operand(0, extra)
    ids = list(module.proto.schedule.sequences[2].instruction_ids)
    assert len(ids) == 8 and ids.index(extra.id) < ids.index(module.entry.find("product").id)


ALIASED = b"""HloModule m, is_scheduled=true, input_output_alias={ {1}: (0, {}, must-alias), \
{0}: (1, {0}, may-alias) }, buffer_donor={ (2, {}) }
ENTRY e {
  x = f32[2] parameter(0)
  p = (f32[2], f32[2]) parameter(1)
  d = f32[2] parameter(2)
  k = f32[2] custom-call(x, d), custom_call_target="k", output_to_operand_aliasing={{}: (1, {})}
  ROOT t = (f32[2], f32[2]) tuple(k, k)
}
""".replace(b"\\\n", b"")


def test_aliases_donors_and_schedules() -> None:
    module = hlo_tools.load(ALIASED)
    assert set(module.aliases) == {Alias((1,), 0, (), must=True), Alias((0,), 1, (0,))}
    assert module.donors == ((2, ()),)
    assert module.entry.find("k").aliases == (Alias((), 1, (), must=True),)
    assert module.entry.root.aliases == ()
    assert module.entry.schedule == module.entry.instructions
    again = module.entry.add("negate", F32, [module.entry.find("x")])
    assert again in (module.entry.schedule or ())
    assert Module(example()).entry.schedule is None


def test_signature_follows_the_root(module: Module) -> None:
    entry = module.entry
    pair = tuple_shape([entry.root.shape, F32])
    entry.set_root(entry.add("tuple", pair, [entry.root, entry.find("total")]))
    assert str(hlo_tools.Shape(module.proto.computations[1].program_shape.result)) == str(pair)


def test_new_module_from_nothing() -> None:
    module = Module.new("made")
    body = module.add_computation("body")
    x = body.add("parameter", F32, name="x")
    body.add("tanh", F32, [x])
    body.set_root(body.find("tanh"))
    again = reload(module)
    assert again.entry.name == "body" and repr(again.entry.root).endswith("tanh(%x)")
    assert again.entry.root.local_id == 1


def test_names_are_made_unique(module: Module) -> None:
    assert module.entry.add("add", F32, name="total").name == "total.1"
    assert module.unique_name("main") == "main.1"
    assert module.unique_name("fresh") == "fresh"


def test_instructions_of_other_computations_are_refused(module: Module) -> None:
    stranger = module.computations[0].find("lhs")
    with pytest.raises(HloError, match="belongs to %region_0") as caught:
        module.entry.add("negate", F32, [stranger])
    assert caught.value.code == "HLO-EDIT"
    with pytest.raises(HloError, match="belongs to"):
        module.entry.find("total").replace_operand(0, stranger)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda e, gone: e.add("negate", F32, [gone]), "%extra was removed"),
        (lambda e, gone: e.root.replace_operand(0, gone), "%extra was removed"),
        (lambda e, gone: e.set_root(gone), "%extra was removed"),
        (lambda e, gone: gone.remove(), "%extra was removed"),
        (lambda e, gone: e.root.replace_operand(7, e.root), "1 operand, none at place 7"),
        (lambda e, gone: e.root.replace_operand(0, "x"), "'x' is not an instruction"),
        (lambda e, gone: e.add("negate", F32, [None]), "None is not an instruction"),
        (lambda e, gone: e.add("negate", "f32[2]", [e.root]), "'f32\\[2\\]' is not a shape"),
        (lambda e, gone: e.add("negate", F32, [e.root], bogus=1), '%negate cannot be added.*"bogus"'),
    ],
)  # fmt: skip
def test_edits_that_cannot_be_made_change_nothing(module: Module, edit: Any, message: str) -> None:
    entry = module.entry
    gone = entry.add("negate", F32, [entry.find("total")], name="extra")
    added = entry.add("negate", F32, [entry.find("total")])
    entry.set_root(added)
    gone.remove()
    before = module.to_bytes()
    with pytest.raises(HloError, match=message) as caught:
        edit(entry, gone)
    assert caught.value.code == "HLO-EDIT"
    assert module.to_bytes() == before


def test_edits_of_a_hundred_thousand_instructions_stay_linear() -> None:
    proto = schema.HloModuleProto(name="long", entry_computation_id=1)
    rows = [("x", "parameter", F32, (), {})]
    rows += [(f"i{n}", "negate", F32, (n - 1,), {}) for n in range(1, 20_000)]
    fill(proto.computations.add(name="main", id=1), "wide", rows, first=0)
    module = Module(proto)
    entry = module.entry
    for view in entry.instructions[1:-1:2]:
        view.replace_uses(view.operands[0])
    entry.remove_all({view for view in entry.instructions[1:-1] if not view.users})
    assert len(reload(module).entry) == 10_001
    assert array_shape("f32", (2, 3)) == F32 and literal_of(1.0).shape == "f64[]"


def test_whether_something_is_used_follows_edits() -> None:
    module = Module(example("wide"))
    entry = module.entry
    x = entry.find("x")
    assert x.is_used and not entry.root.is_used
    negated = entry.add("negate", x.shape, [x])
    assert not negated.is_used
    user = entry.add("abs", x.shape, [negated])
    assert negated.is_used
    user.remove()
    assert not negated.is_used


def test_a_computation_has_no_root_before_it_is_set() -> None:
    """The first parameter would be a silent wrong result."""
    module = Module.new("m")
    main = module.add_computation("main")
    shape = array_shape("f32", (4,))
    x = main.add("parameter", shape, name="x", parameter_number=0)
    assert verify(module) == [], "the only instruction is the root"
    zero = main.add("constant", array_shape("f32"), literal=literal_of(np.float32(2)))
    doubled = main.add("multiply", shape, [x, main.add("broadcast", shape, [zero])])
    (finding,) = verify(module)
    assert finding.code == "HLO-V007" and "set_root" in finding.remedy
    with pytest.raises(HloError, match="has no root"):
        _ = main.root
    main.set_root(doubled)
    assert verify(module) == []
    (result,) = evaluate(module, [np.arange(4, dtype=np.float32)])
    np.testing.assert_array_equal(result, [0, 2, 4, 6])
    main.add("negate", shape, [x])
    assert main.root is doubled
