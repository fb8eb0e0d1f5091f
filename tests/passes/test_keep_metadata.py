"""Metadata that instructions share."""

from __future__ import annotations

from hlo_tools import schema
from tests.passes.running import entry_of, run


def test_shared_metadata_is_stripped_too() -> None:
    module = entry_of("x = f32[] parameter(0)\nROOT n = f32[] negate(x)")
    proto = module.proto
    shared = schema.message("OpMetadata")(op_name="f/neg", source_file="f.py")
    proto.payloads.append(shared.SerializeToString())
    module.entry.root.proto.metadata.metadata_payload.id = 0
    module.touch()
    stripped = run("keep-metadata", module)
    assert stripped.entry.root.metadata.op_name == "f/neg"
    assert not stripped.entry.root.metadata.source_file
