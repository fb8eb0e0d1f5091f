"""Keywords of ``torch_neuronx.trace``."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from neff.device.frameworks.user_lines import user_line
from neff.errors import NeffCompileError
from neff.torch_trace.refusals import TraceKeywordError

__all__ = ["check_keywords"]

ANY_VALUE = ("inline_weights_to_neff", "cpu_backend")
"""The vendor's keywords that choose where weights lie and where the trace runs."""

EMPTY_ONLY = ("input_output_aliases", "partitioner_config")
"""The vendor's keywords whose values would change what the result does."""

_ACCEPTED = ("compiler_args", "compiler_workdir", *ANY_VALUE, *EMPTY_ONLY)


def check_keywords(keywords: Mapping[str, object]) -> None:
    """Refuse what ``trace`` does not have.

    Raises:
        TraceKeywordError: ``NEFF-TRACE-KEYWORD``: the vendor has no such keyword.
        NeffCompileError: ``NEFF-TRACE-KEYWORD-VALUE``: the vendor has it, and this value would
            change the result.
    """
    for name, value in keywords.items():
        if name in EMPTY_ONLY and value:
            raise NeffCompileError(
                f"trace supports {name} only when it is empty",
                code="NEFF-TRACE-KEYWORD-VALUE",
                place=user_line(),
                remedy="leave it out; buffers that a module writes are kept between calls without it"
                if name == "input_output_aliases"
                else "leave it out; every operator is compiled, or the trace is refused",
            )
        if name not in _ACCEPTED:
            close = get_close_matches(name, _ACCEPTED, n=1, cutoff=0.8)
            raise TraceKeywordError(
                f"trace has no keyword {name!r}{f'; did you mean {close[0]!r}?' if close else ''}",
                code="NEFF-TRACE-KEYWORD",
                place=user_line(),
                remedy=f"its keywords are {', '.join(sorted(_ACCEPTED))}",
            )
