"""The keys of the JSON members that this version writes and reads; others are refused.

A newer version may say in a new key what a program does. Open by design, and kept: ``metadata`` of
the manifest and ``hlo_stats.json``, facts for people and tools; of them the runtime reads
``devices`` only, whose keys are checked. The engines' JSON repeats what their programs say, and
loading does not read it; ``nki-neff verify`` checks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from neff.container.strict_json import is_list, is_object
from neff.errors import NeffFileError
from nki_lang.base.unknown_fields import REMEDY, unknown_key

__all__ = ["DEFINITION", "ENGINE", "FIXED_MEMBERS", "MANIFEST_KEYS", "SOURCE_KEYS", "Keys", "require_known_keys"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that an object, or each object in a list or table, may have.

    Attributes:
        keys: the keys; None for names that the user chose.
        inner: key -> what its value may have; "*" is for every value of a table.
    """

    keys: frozenset[str] | None
    inner: tuple[tuple[str, Keys], ...] = ()


def _keys(text: str, **inner: Keys) -> Keys:
    return Keys(frozenset(text.split()) | inner.keys(), tuple(inner.items()))


def _table(rows: Keys) -> Keys:
    return Keys(None, (("*", rows),))


MANIFEST_KEYS: Final = _keys(
    "format encoding name target inputs outputs returns_tuple scratch_bytes",
    subgraphs=_keys("semaphores"),
    variables=_keys("name kind dtype shape offset alias bounds core file"),
    metadata=Keys(None, (("devices", _keys("replicas partitions")),)),
)
SOURCE_KEYS: Final = _keys("files functions locations callers")
DEFINITION: Final = _keys(
    "name act dve pe pool sp act_instr dve_instr pe_instr pool_instr sp_instr",
    dma_queue=_table(_keys("type owner num_queues")),
    var=_table(_keys("type var_id size ops backing_variable_off file_name x_folder")),
)
_SIDES: Final = "from from_off from_steps from_sizes to to_off to_steps to_sizes"
ENGINE: Final = _keys("", dma=_keys("id queue", desc=_keys(f"op from_dtype to_dtype {_SIDES}")))
_SIGNATURE: Final = _table(_keys("id dtype shape"))
FIXED_MEMBERS: Final = {
    "info.json": _keys("tool_version num_tpb target"),
    "kelf-0.json": _keys("version", graphs=_keys("name definition")),
    "neff.json": _keys(
        "arg_nodes heads node_row_ptr",
        nodes=_keys(
            "op name inputs output_names",
            attrs=_keys("func_name num_inputs num_outputs flatten_data"),
        ),
        attrs=_keys("dltype shape storage_id"),
        metadata=_keys(
            "", signatures=_keys("", default=_keys("", inputs=_SIGNATURE, outputs=_SIGNATURE))
        ),
    ),
}
"""Members that every NEFF of ours has, without the manifest."""


def require_known_keys(document: object, keys: Keys, location: str, path: str = "") -> None:
    """Refuse a document with a key that this version does not know, at any depth.

    Values of another type than expected are left to their readers.

    Args:
        document: an object, a list or a table of objects.
        keys: what it may have.
        location: file and member, for errors.
        path: where the document stands in the member.

    Raises:
        NeffFileError: code ``NEFF-UNKNOWN-FIELD``.
    """
    if is_list(document):
        for number, row in enumerate(document):
            require_known_keys(row, keys, location, f"{path}[{number}]")
        return
    if not is_object(document):
        return
    if keys.keys is not None and not document.keys() <= keys.keys:
        key = unknown_key(document, keys.keys)
        if key is not None:
            raise NeffFileError(
                f"this version does not know the key {key[:80]!r} at {path or 'the top level'}",
                code="NEFF-UNKNOWN-FIELD",
                place=location,
                remedy=REMEDY,
            )
    for name, inner in keys.inner:
        if name == "*":
            for label, row in document.items():
                require_known_keys(row, inner, location, f"{path}.{label}")
        elif name in document:
            require_known_keys(document[name], inner, location, f"{path}.{name}".lstrip("."))
