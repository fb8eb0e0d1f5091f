"""Colours of nodes: one for each kind of work, dark enough for white letters."""

from __future__ import annotations

__all__ = ["COLORS", "kind_of"]

COLORS = {
    "kernel": "#7c3aed",
    "input": "#64748b",
    "constant": "#78716c",
    "matrix": "#2563eb",
    "reduction": "#0f766e",
    "elementwise": "#15803d",
    "movement": "#a16207",
    "control": "#db2777",
    "collective": "#dc2626",
    "other": "#475569",
}

_KINDS = {
    "input": "parameter infeed iota",
    "constant": "constant",
    "matrix": "dot convolution ragged-dot scaled-dot cholesky triangular-solve fft",
    "reduction": "reduce reduce-window select-and-scatter sort topk batch-norm-training "
    "batch-norm-inference batch-norm-grad",
    "movement": "broadcast reshape transpose slice concatenate pad copy gather scatter reverse "
    "dynamic-slice dynamic-update-slice bitcast tuple get-tuple-element copy-start copy-done",
    "control": "call while conditional fusion map scan opt-barrier after-all custom-call "
    "async-start async-update async-done",
    "collective": "all-reduce all-gather all-to-all reduce-scatter collective-permute send recv "
    "send-done recv-done collective-broadcast all-reduce-start all-reduce-done "
    "all-gather-start all-gather-done collective-permute-start collective-permute-done "
    "partition-id replica-id",
}
_BY_OPCODE = {opcode: kind for kind, names in _KINDS.items() for opcode in names.split()}


def kind_of(opcode: str, is_kernel: bool) -> str:
    """The kind of work of an opcode; arithmetic on elements is what is in no list."""
    if is_kernel:
        return "kernel"
    return _BY_OPCODE.get(opcode, "elementwise")
