"""Results kept under what they were made from, in a folder or on a server that several machines use.

An action (:class:`Action`: every input, flag and version that a result depends on) names a record,
the record names files by the digest of their content. ``open_store(url)`` opens one in a folder or,
through fsspec, on ``s3://``, ``gs://``, ``memory://`` and whatever else fsspec knows.
"""

from __future__ import annotations

from hlo_tools.store.action import Action
from hlo_tools.store.limits import Entry, Fault, Limits, collect, entries, verify
from hlo_tools.store.places import open_place
from hlo_tools.store.store import Store, open_store

__all__ = [
    "Action",
    "Entry",
    "Fault",
    "Limits",
    "Store",
    "collect",
    "entries",
    "open_place",
    "open_store",
    "verify",
]
