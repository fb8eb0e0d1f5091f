"""Instructions that communicate with other cores, and that print."""

from __future__ import annotations

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiExecutionError
from nki_lang.base.source import SourceLocation
from nki_lang.semantics.state import EngineState
from nki_lang.semantics.table import semantics

__all__: list[str] = []


@semantics("")
def core_barrier(
    data: object, cores: tuple[int, ...], state: EngineState, location: SourceLocation | None
) -> None:
    """Wait until all ``cores`` have reached the barrier."""
    if state.exchange is not None:
        state.exchange.barrier(state.core, tuple(cores), location)


@semantics()
def sendrecv(
    src: Array,
    dst: Array,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    state: EngineState,
    location: SourceLocation | None,
    dma_engine: object = None,
) -> None:
    """Send ``src`` to one core and receive ``dst`` from another."""
    if state.exchange is None:
        dst[...] = src
        return
    received = state.exchange.swap(
        state.core, src.copy(), int(send_to_rank), int(recv_from_rank), int(pipe_id), location
    )
    if received.shape != src.shape or received.dtype != src.dtype:
        raise NkiExecutionError(
            f"core {state.core} exchanges {src.dtype}{list(src.shape)} with core {recv_from_rank},"
            f" which sends {received.dtype}{list(received.shape)}",
            code="NKI-SENDRECV",
            location=location,
            remedy="both cores pass tiles of the same shape and dtype",
        )
    dst[...] = received.reshape(dst.shape)


@semantics("")
def device_print(print_prefix: str, tensor: Array) -> None:
    """Print a tensor to standard output."""
    print(f"{print_prefix} {tensor}")
