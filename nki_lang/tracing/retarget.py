"""Results that a kernel returns in another shape than their allocation.

``return out.reshape(...)`` gives one region of memory two shapes. In the kernel IR a tensor has one
shape, so the region takes the returned shape, and every access to it is rewritten; element
offsets do not change, because both shapes are dense.
"""

from __future__ import annotations

from typing import Any

from nki_lang.ir import Access, Block, Instruction, Tensor, is_group

__all__ = ["retarget"]


def retarget(body: Block, tensors: dict[str, Tensor]) -> None:
    """Redirect every access to a tensor named in ``tensors`` to the new tensor."""
    for statement in body:
        if not isinstance(statement, Instruction):
            retarget(statement.body, tensors)
            continue
        for name, value in statement.operands.items():
            if type(value) is Access or type(value) is tuple:
                statement.operands[name] = _moved(value, tensors)


def _moved(value: Any, tensors: dict[str, Tensor]) -> Any:
    if is_group(value):
        return tuple(_moved(entry, tensors) for entry in value)
    if type(value) is not Access:
        return value
    replacement = tensors.get(value.tensor.name)
    scalar = _moved(value.scalar_offset, tensors)
    vector = _moved(value.vector_offset, tensors)
    if replacement is None:
        return value._replace(scalar_offset=scalar, vector_offset=vector)
    if not value.is_dynamic:
        return value._replace(tensor=replacement)
    return value._replace(
        tensor=replacement,
        scalar_offset=scalar,
        vector_offset=vector,
        indirect_dim=0,
        indirect_step=value.index_step,
    )
