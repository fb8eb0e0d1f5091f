"""The rules of communication between ranks."""

from __future__ import annotations

from typing import Any

from nki_lang.base.memory import HBM
from nki_lang.frontend.objects import is_sequence
from nki_lang.isa.call import CheckedCall
from nki_lang.isa.rules import custom


@custom("NKI-COLLECTIVE", "all tensors are in HBM or all are in SBUF; several only in HBM; sources"
        " and destinations pair up", "nki.collectives.all_reduce")  # fmt: skip
def collective_memory(call: CheckedCall) -> str:
    sources, targets = call["srcs"], call["dsts"]
    if len(sources) != len(targets):
        return f"{len(sources)} sources and {len(targets)} destinations"
    in_hbm = {tensor.buffer in HBM for tensor in (*sources, *targets)}
    if len(in_hbm) > 1:
        return "sources and destinations in different memories"
    if not in_hbm.pop() and len(sources) > 1:
        return f"{len(sources)} tensors in SBUF"
    return ""


@custom("NKI-COLLECTIVE", "collective_dim is 0; 1 only for an all_gather in SBUF",
        "nki.collectives.all_gather, collective_dim")  # fmt: skip
def collective_dim(call: CheckedCall) -> str:
    dim = call["collective_dim"]
    in_sbuf = call["srcs"][0].on_chip and call.spec.op == "all_gather"
    return "" if dim == 0 or (dim == 1 and in_sbuf) else f"collective_dim={dim!r}"


@custom("NKI-COLLECTIVE", "one tensor on each side, and every rank at most once as source and once"
        " as target", "nki.collectives.collective_permute")  # fmt: skip
def permute_pairs(call: CheckedCall) -> str:
    pairs = [tuple(pair) for pair in call["source_target_pairs"]]
    sources, targets = [pair[0] for pair in pairs], [pair[-1] for pair in pairs]
    wrong = any(len(pair) != 2 for pair in pairs) or len(call["srcs"]) != 1
    if wrong or len(set(sources)) != len(pairs) or len(set(targets)) != len(pairs):
        return f"source_target_pairs={pairs} with {len(call['srcs'])} tensors"
    return ""


@custom("NKI-COLLECTIVE", "channel_ids count from 0, at most four, with one tensor for each",
        "nki.collectives.collective_permute_implicit, Channels")  # fmt: skip
def channels(call: CheckedCall) -> str:
    ids = list(call["channel_ids"])
    if ids != list(range(len(ids))) or not 1 <= len(ids) <= 4:
        return f"channel_ids={ids}"
    for name in call.values:
        if not name.endswith("_by_channel"):
            continue
        value = call[name]
        if len(value) != len(ids) or any(len(inner) != 1 for inner in value):
            return f"{name} holds {[len(inner) for inner in value]} tensors for {len(ids)} channels"
    return ""


@custom("NKI-COLLECTIVE", "the metadata is uint32 of shape (rows, ranks), in SBUF (1, rows, ranks);"
        " rows is 3, or 4 with has_rdispls", "nki.collectives.all_to_all_v, metadata_tensor")  # fmt: skip
def metadata_shape(call: CheckedCall) -> str:
    tensor = call["metadata_tensor"]
    rows = 4 if call["has_rdispls"] else 3
    sizes = {len(group) for group in call["replica_group"].replica_groups}
    shape = tensor.shape[1:] if tensor.on_chip else tensor.shape
    fits = len(shape) == 2 and shape[0] == rows and shape[1] in sizes
    if not fits or len(call["srcs"]) != 1:
        return call.describe("metadata_tensor")
    return ""


@custom("NKI-COLLECTIVE", "replica_group is an ncc.ReplicaGroup, or lists of ranks",
        "nki.collectives.ReplicaGroup")  # fmt: skip
def groups(call: CheckedCall) -> str:
    value = call["replica_group"]
    listed = is_sequence(value) and all(is_sequence(group) for group in value)
    return "" if listed or hasattr(value, "replica_groups") else f"replica_group={value!r}"


@custom("NKI-COLLECTIVE", "each destination has as many elements as its source",
        "nki.collectives, srcs and dsts")  # fmt: skip
def same_shapes(call: CheckedCall) -> str:
    names = [name for name in ("dsts", "dsts_by_channel") if name in call.values]
    for target in names:
        for name in call.values:
            if not name.startswith("srcs"):
                continue
            for source, destination in zip(_flat(call[name]), _flat(call[target]), strict=True):
                if source.size != destination.size:
                    return (
                        f"{source.name!r} {source.shape}, {destination.name!r} {destination.shape}"
                    )
    return ""


def _flat(value: Any) -> list[Any]:
    """Tensors of a list, or of a list for each channel."""
    return [t for entry in value for t in (entry if is_sequence(entry) else (entry,))]
