"""Tensors of a traced function on the lazy device, each with data of its own."""

from __future__ import annotations

from collections.abc import Sequence

from neff.errors import NeffCompileError
from neff.torch_graph.pytorch import Tensor, Tree, lazy_device, xlac
from neff.torch_trace.watching import data_leaves

__all__ = ["identity_of", "is_written", "placed"]


def identity_of(tensor: Tensor) -> int:
    """The identity of the data that a lazy tensor has now; a write changes it."""
    lazy = xlac()
    return lazy._xla_get_tensor_id(tensor)


def is_written(tensor: Tensor, identity: int) -> bool:
    """Return True when a lazy tensor is no longer the data of an identity.

    Batch normalization writes its statistics without another identity, so the text counts, too.
    """
    if identity_of(tensor) != identity:
        return True
    text: str = xlac()._get_xla_tensors_text([tensor])
    return text.count(" = ") != 1 or "xla::device_data" not in text


def placed(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies on the device.

    torch_xla makes constants of scalar tensors that are zero or one, and one datum of all those
    that are equal; so scalars are taken from tensors of one dimension.

    Raises:
        NeffCompileError: ``NEFF-INTERNAL``: data is shared all the same.
    """
    device = lazy_device()
    copies = [_copied(tensor, device) for tensor in tensors]
    xlac()._xla_sync_multi(copies, [], True, True)
    leaves = [data_leaves([copy])[0] for copy in copies]
    identities = [identity_of(copy) for copy in copies]
    if leaves != [[identity] for identity in identities] or len(set(identities)) < len(copies):
        raise NeffCompileError(
            "tensors of the traced function share data",
            code="NEFF-INTERNAL",
            remedy="report this bug with the function and its example inputs",
        )
    return copies


def _copied(tensor: Tensor, device: Tree) -> Tree:
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    if tensor.dim():
        return tensor.clone().to(device)
    return tensor.reshape(1).to(device).reshape(())
