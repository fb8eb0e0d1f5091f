"""The user's line of each instruction that the compiler emits.

A kernel of the compiler computes several nodes. Each of its instructions has the line and the HLO
instruction of the node that it computes, so that a profile charges its time there.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from neff.compiler.graph.nodes import Node
from nki_lang.base.source import SourceLocation
from nki_lang.frontend.builder import current

__all__ = ["computing", "issued_at", "location_of"]


def location_of(node: Node) -> SourceLocation:
    """Return the user's line without the folder, which would make outputs depend on its path."""
    file, _, line = node.place.rpartition(":")
    if file and line.isdigit():
        return SourceLocation(os.path.basename(file), int(line), node.name)
    return SourceLocation(node.place, 0, node.name)


@contextmanager
def issued_at(location: SourceLocation | None) -> Generator[None]:
    """Give a location to the instructions that are emitted inside the context."""
    builder = current()
    outer, builder.origin = builder.origin, location
    try:
        yield
    finally:
        builder.origin = outer


def computing(node: Node) -> AbstractContextManager[None]:
    """Give the location of a node to the instructions that are emitted inside the context."""
    return issued_at(location_of(node))
