"""Kernel calls of plain NumPy scripts, captured and run as programs of the device are.

A script without JAX or PyTorch compiles no program, so nothing would reach the device. When the
environment requests extraction, for another executor or for the NEFFs, each call of a kernel with
NumPy arrays becomes a program of its own: parameters named as the kernel's arguments, one custom
call, its results.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools import schema
from hlo_tools.errors import HloUnsupportedError
from hlo_tools.extract.protocol import EXECUTOR
from hlo_tools.frameworks.call_module import build_call_module
from hlo_tools.frameworks.numpy_kernel import NumpyKernel, check_written, run_bound
from hlo_tools.frameworks.plan import BoundCall, CallPlan
from neff.device.activation import (
    artifacts_are_wanted,
    capture_is_wanted,
    extract_only,
    note_zeros,
)
from neff.device.programs import capture
from neff.errors import NeffCompileError, NeffError
from nki_lang.base.dtypes import Array
from nki_lang.base.targets import current_target, target_of
from nki_lang.kernel import Kernel, set_array_runner

__all__ = ["Calls", "call_program", "install", "is_wanted"]

Arrays = list[Array]
Run = Callable[[BoundCall], Arrays]


def is_wanted() -> bool:
    """Return whether the environment requests programs of NumPy calls."""
    asked = capture_is_wanted() or extract_only() or artifacts_are_wanted()
    return asked or "neff" in os.environ.get(EXECUTOR, "")


def install() -> None:
    """Let calls with NumPy arrays alone go through here."""
    if capture_is_wanted():
        from neff.device.programs.extraction import extract

        capture.add(extract)
    writes_artifacts = artifacts_are_wanted()
    folder = Path(os.environ["NKI_ARTIFACTS_DIR"].strip()).absolute() if writes_artifacts else None
    set_array_runner(Calls(folder).run)


def call_program(plan: CallPlan) -> bytes:
    """A call as a serialised ``HloModuleProto``, its tensors named as the kernel names them."""
    module = schema.HloModuleProto.FromString(build_call_module(plan, plan.func_name))
    module.name = plan.func_name
    (computation,) = module.computations
    for row in computation.instructions:
        if row.opcode == "parameter":
            name: str = plan.inputs[row.parameter_number].name
            row.frontend_attributes.map["neff_input_names"] = name
        if row.id == computation.root_id:
            row.frontend_attributes.map["neff_output_names"] = ",".join(_result_names(plan))
    return module.SerializeToString(deterministic=True)


class Calls:
    """Runs calls; each specialised call is captured once.

    Args:
        artifacts: a folder that gets the NEFF of each call as ``kernel.neff``, or None.
    """

    def __init__(self, artifacts: Path | None = None) -> None:
        self._artifacts = artifacts
        self._lock = threading.Lock()
        self._ready: dict[str, Run] = {}

    def run(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the kernel's results for these arrays."""
        target = kernel.target.name if kernel.target else None
        numpy_kernel = NumpyKernel(
            kernel.__name__, kernel.func, kernel.grid, platform_target=target,
            schedule=kernel.schedule,
        )  # fmt: skip
        call = numpy_kernel.bind(*args, **kwargs)
        with self._lock:
            run = self._ready.get(call.plan.backend_config)
            if run is None:
                run = _prepare(call.plan, target, self._artifacts)
                self._ready[call.plan.backend_config] = run
        values = run(call)
        return call.plan.pack(values) if call.plan.returned else None


def _prepare(plan: CallPlan, target: str | None, artifacts: Path | None) -> Run:
    family = target_of(target).name if target else current_target().name
    module = call_program(plan)
    capture.notify(capture.Captured(plan.func_name, module, 1, 1, family))
    if artifacts is not None:
        _keep_neff(module, family, artifacts)
    if extract_only():
        note_zeros()
        return lambda call: _delivered(
            call, [np.zeros(s.shape, s.dtype.dtype) for s in plan.results]
        )
    names = os.environ.get(EXECUTOR, "cpu").replace(" ", "").split(",")
    if names[0] != "neff":
        return lambda call: run_bound(call, list(call.tensors))
    try:
        return _built(module, family)
    except (NeffCompileError, HloUnsupportedError):
        if "cpu" not in names:
            raise
        return lambda call: run_bound(call, list(call.tensors))


def _keep_neff(module: bytes, family: str, folder: Path) -> None:
    """Write the call's NEFF as ``folder/kernel.neff``, in the place of an earlier call's.

    Raises:
        NeffError: ``NEFF-WRITE``; the folder or the file cannot be written.
        NeffCompileError: the graph compiler does not cover the call.
    """
    from neff.device.executors.built import build_file

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NeffError(
            f"NKI_ARTIFACTS_DIR is not a folder that can be created: {error.strerror or error}",
            code="NEFF-WRITE",
            place=str(folder),
            remedy="name another folder, or unset NKI_ARTIFACTS_DIR",
        ) from None
    build_file(module, family, folder / "kernel.neff")


def _built(module: bytes, family: str) -> Run:
    """The call as a NEFF that was written and read back."""
    from neff.device.executors.built import build_and_load

    model, inputs, outputs = build_and_load(module, family)

    def run(call: BoundCall) -> Arrays:
        check_written(call, list(call.tensors))
        arrays = [np.asarray(call.tensors[index], order="C") for index in call.plan.operands]
        results = model.run(dict(zip(inputs, arrays, strict=True)))
        return _delivered(call, [np.array(results[name]) for name in outputs])

    return run


def _delivered(call: BoundCall, values: Arrays) -> Arrays:
    """Write what the kernel writes in place into the arrays themselves."""
    for result, tensor in call.plan.written:
        np.copyto(call.tensors[tensor], values[result])
        values[result] = call.tensors[tensor]
    return values


def _result_names(plan: CallPlan) -> list[str]:
    """``output_0`` and so on, as of a kernel that is compiled alone.

    An argument of such a name keeps it: a NEFF names each of its tensors once.
    """
    used_names = {spec.name for spec in plan.inputs}
    free = (name for name in map("output_{}".format, count()) if name not in used_names)
    return list(islice(free, len(plan.results)))
