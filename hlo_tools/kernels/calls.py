"""From the ``backend_config`` of a custom call to a kernel that can be run.

Nothing but the configuration is needed to find the kernel again, so a module compiled by
another process, or read from a file, runs like one that was traced here.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools.errors import CodedError, HloFileError, HloVerifyError
from hlo_tools.kernels.backend_config import BackendConfig, decode, encode, require_known_config
from hlo_tools.kernels.location import locate, read_kernel_file
from hlo_tools.kernels.ranks import Place, current_place, meet, ranks_of
from hlo_tools.types.element_types import Array
from nki_lang import execute, klir
from nki_lang.ir import KernelIR, Tensor

__all__ = ["KernelCall", "clear_cache", "content_of", "interpret_with", "resolve"]

_CACHE_SIZE = 256
_Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class KernelCall:
    """A kernel, and the order in which its custom call passes it operands.

    Attributes:
        config: the decoded ``backend_config``.
        path: the kernel file.
        kernel: what the file holds.
    """

    config: BackendConfig
    path: Path
    kernel: KernelIR
    _pool: list[execute.Pool] = field(default_factory=list[execute.Pool])
    _loading: threading.Lock = field(default_factory=threading.Lock)

    def run(self, operands: Sequence[Array], results: Sequence[Array] | None = None) -> list[Array]:
        """The kernel's results for the operands of one call (constants among them).

        Any number of threads may run one kernel at a time.

        Args:
            operands: one array for each of ``config.input_names``.
            results: C-contiguous arrays to write the results into; made when not given. One may
                be the memory of an operand that the kernel writes in place.

        Raises:
            HloVerifyError: code ``HLO-KERNEL-OPERAND`` or ``HLO-KERNEL-RESULT``; number, shape
                or dtype does not fit.
            NkiExecutionError: the kernel did something wrong, at the user's line.
        """
        self._check("operand", self.config.input_names, operands)
        if results is not None:
            self._check("result", self.config.output_names, results)
        operands_by_name = dict(zip(self.config.input_names, operands, strict=True))
        values = self._interpreted(operands)
        if values is None:
            values = self._executed(operands_by_name, operands, results)
        for value, result in zip(values, results or (), strict=False):
            if value is not result:
                np.copyto(result, value.reshape(result.shape))
        return values if results is None else list(results)

    def _interpreted(self, operands: Sequence[Array]) -> list[Array] | None:
        if not _interpreters:
            return None
        interpreter = _interpreters.get(encode(self.config))
        return None if interpreter is None else interpreter(operands)

    def _executed(
        self,
        operands_by_name: dict[str, Array],
        operands: Sequence[Array],
        results: Sequence[Array] | None,
    ) -> list[Array]:
        location = current_place()
        size = ranks_of(self.kernel) if location is not None and self.kernel.has_collectives else 0
        if location is not None and size > 1:
            return self._with_other_ranks(operands_by_name, location, size)
        pool = self._loaded()
        return pool.run(
            [operands_by_name[tensor.name] for tensor in pool.kernel_ir.inputs],
            None if results is None else [_unless_shared(array, operands) for array in results],
            rank=location.rank if location is not None else 0,
        )

    def _with_other_ranks(
        self, operands_by_name: dict[str, Array], location: Place, size: int
    ) -> list[Array]:
        kernel = _constants_as_inputs(self.kernel, self.config)
        inputs = [operands_by_name[tensor.name] for tensor in kernel.inputs]
        name = encode(self.config)
        return meet(name, location, size, inputs, lambda ranks: execute.run_ranks(kernel, ranks))

    def _loaded(self) -> execute.Pool:
        """The kernel ready to run, loaded once."""
        with self._loading:
            if not self._pool:
                kernel = _constants_as_inputs(self.kernel, self.config)
                self._pool.append(execute.Pool(execute.load(kernel)))
        return self._pool[0]

    def _check(self, what: str, names: Sequence[str], arrays: Sequence[Array]) -> None:
        if len(arrays) != len(names):
            raise self._misfit(
                what, f"has {len(names)} {what}s ({', '.join(names)}), the call {len(arrays)}"
            )
        tensors = _tensors(self.kernel)
        for name, array in zip(names, arrays, strict=True):
            tensor = tensors[name]
            if tuple(array.shape) != tuple(tensor.shape) or array.dtype != tensor.dtype.dtype:
                raise self._misfit(
                    what,
                    f"has {what} {name} as {tensor.dtype}{list(tensor.shape)}, "
                    f"the call as {array.dtype}{list(array.shape)}",
                )

    def _misfit(self, kind: str, what: str) -> HloVerifyError:
        return HloVerifyError(
            f"kernel {self.config.func_name} {what}",
            code=f"HLO-KERNEL-{kind.upper()}",
            place=str(self.path),
            remedy="the kernel file and the module must come from the same trace; trace them again",
        )


def _unless_shared(result: Array, operands: Sequence[Array]) -> Array | None:
    """The array, or None when writing into it while the kernel runs would change an operand."""
    shared = any(np.may_share_memory(result, operand) for operand in operands)
    return None if shared else result


def _tensors(kernel: KernelIR) -> dict[str, Tensor]:
    """Every tensor that a call can name."""
    constants = (constant.tensor for constant in kernel.constants)
    return {tensor.name: tensor for tensor in (*kernel.inputs, *constants, *kernel.outputs)}


def _constants_as_inputs(kernel: KernelIR, config: BackendConfig) -> KernelIR:
    """The kernel with those constants as inputs that the call passes as operands."""
    passed = set(config.input_names)
    moved = tuple(c.tensor for c in kernel.constants if c.tensor.name in passed)
    constants = tuple(c for c in kernel.constants if c.tensor.name not in passed)
    return replace(kernel, inputs=(*kernel.inputs, *moved), constants=constants)


Interpreter = Callable[[Sequence[Array]], "list[Array] | None"]

_interpreters: dict[str, Interpreter] = {}


def interpret_with(backend_config: str, interpreter: Interpreter) -> None:
    """Ask ``interpreter`` for the results of a kernel first; None from it means: run as usual."""
    _interpreters[backend_config] = interpreter


class _CallCache:
    """Kernels by the content of their files, found again quickly while a file is unchanged."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._by_stamp: OrderedDict[Any, KernelCall] = OrderedDict()
        self._by_content: OrderedDict[Any, KernelCall] = OrderedDict()

    def get(self, config: str, path: Path) -> KernelCall:
        stamp = (config, str(path), _stamp(path))
        with self._lock:
            call = self._by_stamp.get(stamp)
            if call is not None:
                self._by_stamp.move_to_end(stamp)
                return call
        content = (config, content_of(path))
        with self._lock:
            call = self._by_content.get(content)
        if call is None:
            call = _load(decode(config), path)
        with self._lock:
            self._by_stamp[stamp] = self._by_content[content] = call
            for table in (self._by_stamp, self._by_content):
                while len(table) > self._size:
                    table.popitem(last=False)
        return call

    def clear(self) -> None:
        with self._lock:
            self._by_stamp.clear()
            self._by_content.clear()


_calls = _CallCache(_CACHE_SIZE)


def clear_cache() -> None:
    """Forget every kernel that was loaded."""
    _calls.clear()
    _interpreters.clear()


def resolve(backend_config: str | bytes, root: Path | None = None) -> KernelCall:
    """The kernel that a custom call's ``backend_config`` names, ready to run.

    Args:
        backend_config: base64, as in the module.
        root: the folder that relative paths start from.

    Raises:
        HloError: the configuration does not decode, or has keys that this version does not know.
        HloFileError: code ``HLO-KERNEL-MISSING`` or ``HLO-KERNEL-PATH``: no such file;
            ``HLO-KERNEL-DAMAGED``: the file is not a whole kernel, or not this one.
    """
    text = backend_config.decode("ascii", "replace") if isinstance(backend_config, bytes) else backend_config  # fmt: skip
    config = decode(text)
    require_known_config(config)
    return _calls.get(text, locate(config, root))


def _files(path: Path) -> tuple[Path, Path]:
    return path, path.with_name(path.name + ".json")


def _stamp(path: Path) -> _Stamp:
    """Time, size and inode of the kernel file and its companion record."""
    stamps: list[tuple[int, int, int] | None] = []
    for file in _files(path):
        try:
            status = os.stat(file)
            stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except FileNotFoundError:
            stamps.append(None)
    if stamps[0] is None:
        raise HloFileError(
            "there is no such kernel file",
            code="HLO-KERNEL-MISSING",
            place=str(path),
            remedy="trace the program again, or copy the .klir files together with the module",
        )
    return tuple(stamps)


def content_of(path: Path) -> str:
    """A digest of a kernel file and its companion record.

    Raises:
        HloFileError: it cannot be read.
    """
    digest = hashlib.sha256()
    for file in _files(path):
        try:
            digest.update(read_kernel_file(file))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise HloFileError(
                f"the kernel file cannot be read: {error.strerror or error}",
                code="HLO-KERNEL-MISSING",
                place=str(path),
            ) from error
        digest.update(b"\0file\0")
    return digest.hexdigest()


_OF_NEWER_VERSIONS = ("NKI-FILE-UNKNOWN-FIELD", "NKI-FILE-VERSION")


def _load(config: BackendConfig, path: Path) -> KernelCall:
    try:
        kernel = klir.read(path)
    except CodedError as error:
        raise HloFileError(
            f"{error.message.removeprefix(f'{path}: ')} [{error.code}]",
            code="HLO-KERNEL-DAMAGED",
            place=str(path),
            remedy=error.remedy
            if error.code in _OF_NEWER_VERSIONS
            else "copy the module's folder again, or trace the program again",
        ) from error
    _check_names(config, kernel, path)
    return KernelCall(config, path, kernel)


def _check_names(config: BackendConfig, kernel: KernelIR, path: Path) -> None:
    """The configuration must speak of the tensors that the file has."""
    inputs = {tensor.name for tensor in kernel.inputs}
    inputs |= {constant.tensor.name for constant in kernel.constants}
    outputs = [tensor.name for tensor in kernel.outputs]
    if set(config.input_names) == inputs and list(config.output_names) == outputs:
        return
    raise HloFileError(
        f"the file contains another kernel: it has inputs {sorted(inputs)} and outputs {outputs}, "
        f"the call names {list(config.input_names)} and {list(config.output_names)}",
        code="HLO-KERNEL-DAMAGED",
        place=str(path),
        remedy="trace the program again",
    )
