"""A part of a module as a module of its own that runs."""

from hlo_tools.slicing.extraction import Slice, extract_slice
from hlo_tools.slicing.search import Query, search
from hlo_tools.slicing.selection import (
    SourceRange,
    find_targets,
    grow,
    parse_source,
    select_scope,
    select_source,
)

__all__ = [
    "Query",
    "Slice",
    "SourceRange",
    "extract_slice",
    "find_targets",
    "grow",
    "parse_source",
    "search",
    "select_scope",
    "select_source",
]
