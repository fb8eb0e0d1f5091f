"""A history played: the kernel in a module of its own, each call beside what Python says it gives."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np

from tests.fuzz.drivers.children import PATHS, serve
from tests.fuzz.drivers.states.history import History, Step
from tests.fuzz.drivers.states.holders import HOLDERS, object_of

__all__ = ["World", "serve_histories"]

Array = np.ndarray[Any, Any]
HEADER = """import collections, contextvars, dataclasses, enum, functools, os, types
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
import helper_{tag} as helper

"""
KERNEL = """
def make():
{inner}
    @nki.jit(platform_target="trn2")
    def kernel(x, plus=0, given=None):
        tile = nl.load(x)
{reads}
        nisa.tensor_scalar(tile, tile, nl.add, float(plus))
        out = nl.ndarray(x.shape, x.dtype, nl.{memory})
        nl.store(out, tile)
{writes}
        return out

    return kernel

kernel = make()

def cell(name):
    return dict(zip(kernel.func.__code__.co_freevars, kernel.func.__closure__))[name]
"""
WRITES = """        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nl.store(x, tile)"""
HELPER = "NUMBERS = {numbers}\n\n\ndef number(place):\n    return NUMBERS[place]\n"
RUNNER = (
    "import sys; sys.path[:0] = {paths!r}; import numpy as np; import {module} as m;"
    " x = np.load({file!r}); y = m.kernel(x, plus={plus}, given={given}); np.savez({file!r} + '.out.npz', y, x)"
)


class World:
    """One history, being played in a folder."""

    def __init__(self, history: History, folder: Path, tag: str) -> None:
        self.history, self.folder, self.tag = history, folder, tag
        self.numbers = list(history.numbers)
        self.plus = 0
        self.kept: list[tuple[Array, Array]] = []
        holder_index = history.passed_holder
        self.object = (
            object_of(history.holders[holder_index], holder_index) if holder_index >= 0 else ""
        )
        self.module = self._written(f"world_{tag}")
        self.jitted: Any = None

    def _written(self, name: str) -> ModuleType:
        """The module, of what the numbers are now."""
        helper = self.folder / f"helper_{self.tag}.py"
        if not helper.exists() or name.endswith("_child"):
            helper.write_text(HELPER.format(numbers=self.numbers))
        (self.folder / f"{name}.py").write_text(self.source())
        if name.endswith("_child"):
            return sys.modules[__name__]
        importlib.invalidate_caches()
        return importlib.import_module(name)

    def source(self) -> str:
        """The module as text."""
        outer, inner, reads = [], [], []
        for n, (name, value) in enumerate(zip(self.history.holders, self.numbers, strict=True)):
            holder = HOLDERS[name]
            text = holder.define.format(n=n, v=value, tag=self.tag)
            (inner if holder.inner else outer).append(text)
            read = holder.read.format(n=n, tag=self.tag)
            if n == self.history.passed_holder and self.object:
                read = re.sub(rf"\b{self.object}\b", "given", read)
            reads.append(f"        nisa.tensor_scalar(tile, tile, nl.add, float({read}))")
        return HEADER.format(tag=self.tag) + "\n".join(outer) + KERNEL.format(
            inner="\n".join("    " + line for line in inner), reads="\n".join(reads), memory=self.history.memory,
            writes=WRITES if self.history.writes else "",
        )  # fmt: skip

    def options(self) -> dict[str, Any]:
        """Return the arguments of the kernel other than its array."""
        held_object = getattr(self.module, self.object) if self.object else None
        return {"plus": self.plus, "given": held_object}

    def play(self) -> str:
        """Return the fault of the history; "" when there is none."""
        for number, step in enumerate(self.history.steps):
            message = getattr(self, f"_{step.what}")(step)
            if message:
                return f"step {number} ({step.what} {step.name}): {message}"
            for result, copy in self.kept:
                if result.tobytes() != copy.tobytes():
                    return f"step {number} ({step.what} {step.name}): a kept result changed"
        return ""

    def _change(self, step: Step) -> str:
        self.numbers[step.place] = step.value
        holder = HOLDERS[self.history.holders[step.place]]
        text = holder.change.format(n=step.place, v=step.value, tag=self.tag)
        exec(text, self.module.__dict__)
        return ""

    def _keyword(self, step: Step) -> str:
        self.plus = step.value
        return ""

    def _call(self, step: Step) -> str:
        original = np.random.default_rng(step.value).integers(-50, 50, (4, 6)).astype(np.float32)
        x = original.copy()
        expected = original + np.float32(sum(self.numbers) + self.plus)
        left = 2 * expected if self.history.writes else original
        try:
            result = WAYS[step.name](self, x)
        except Exception as error:
            if "[NKI-WRITE-LOST]" in str(error) and self.history.writes:
                return ""  # of JAX's arrays
            raise
        if result.tobytes() != expected.tobytes():
            return f"gives {result.flat[0]}, not {expected.flat[0]}"
        if step.name in IN_PLACE and x.tobytes() != left.tobytes():
            return f"the argument is {x.flat[0]} afterwards, not {left.flat[0]}"
        self.kept.append((result, result.copy()))
        if step.name in IN_PLACE:
            x += 1  # what was returned is no view of it
        return ""


def _direct(world: World, x: Array) -> Array:
    return world.module.kernel(x, **world.options())


def _simulate(world: World, x: Array) -> Array:
    import nki

    return nki.simulate(world.module.kernel)(x, **world.options())


def _neff(world: World, x: Array) -> Array:
    from hlo_tools.extract.protocol import EXECUTOR
    from neff.device.frameworks.numpy_calls import Calls

    before = os.environ.get(EXECUTOR)
    os.environ[EXECUTOR] = "neff"
    try:
        return Calls().run(world.module.kernel, (x,), world.options())
    finally:
        os.environ.pop(EXECUTOR)
        if before is not None:
            os.environ[EXECUTOR] = before


def _threads(world: World, x: Array) -> Array:
    """Eight at once, each with data of its own."""
    import contextvars

    results: list[Any] = [None] * 8

    def work(number: int) -> None:
        shifted = x + np.float32(number)
        try:
            results[number] = world.module.kernel(shifted, **world.options()) - np.float32(number)
        except Exception as error:
            results[number] = error

    contexts = [contextvars.copy_context() for _ in results]
    workers = [
        threading.Thread(target=context.run, args=(work, n)) for n, context in enumerate(contexts)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
        if result.tobytes() != results[0].tobytes():
            raise AssertionError("threads differ")
    return results[0]


def _fork(world: World, x: Array) -> Array:
    """In a copy of this process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, world.module.kernel(x, **world.options()).tobytes())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        data = stream.read()
    os.waitpid(child, 0)
    return np.frombuffer(data, np.float32).reshape(x.shape).copy()


def _process(world: World, x: Array) -> Array:
    """In a process of its own, which shares the folder of kernels."""
    name = f"world_{world.tag}_child"
    world._written(name)
    file = str(world.folder / "x.npy")
    np.save(file, x)
    code = RUNNER.format(
        paths=[str(world.folder), *PATHS],
        module=name,
        file=file,
        plus=world.plus,
        given=f"m.{world.object}" if world.object else None,
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-300:])
    return np.load(file + ".out.npz")["arr_0"]


def _files(world: World, x: Array) -> Array:
    """As a module that names the kernel's file, built after something happened to the file."""
    import hlo_tools
    from hlo_tools.frameworks.numpy_kernel import NumpyKernel
    from hlo_tools.kernels.backend_config import decode
    from neff import compile as compile_module
    from neff import runtime
    from neff.device.frameworks.numpy_calls import call_program

    kernel = world.module.kernel
    call = NumpyKernel("kernel", kernel.func, kernel.grid, platform_target="trn2").bind(
        x, **world.options()
    )
    path = Path(decode(call.plan.backend_config).binary)
    before = path.read_bytes()
    happens = (len(world.kept) + len(world.history.steps)) % 3
    try:
        if happens == 1:
            path.write_bytes(before[: len(before) // 2])
        elif happens == 2:
            path.unlink()
        program = compile_module(hlo_tools.load(call_program(call.plan)), target="trn2")
        if happens:
            raise AssertionError("a kernel file that is cut or gone is built")
    except Exception as error:
        if not happens or not isinstance(getattr(error, "code", None), str):
            raise
        return _direct(world, x)
    finally:
        path.write_bytes(before)
    arrays = [np.asarray(call.tensors[index], order="C") for index in call.plan.operands]
    outputs = runtime.load(program).run(dict(zip(program.inputs, arrays, strict=True)))
    return np.array(outputs[program.outputs[0]])


def _jax(world: World, x: Array) -> Array:
    import jax

    return np.asarray(jax.jit(lambda a: world.module.kernel(a, **world.options()))(x))


def _jax_again(world: World, x: Array) -> Array:
    """Traced once more by one function."""
    import jax

    world.jitted = world.jitted or jax.jit(
        lambda a, plus: world.module.kernel(a, **world.options()), static_argnums=1
    )
    world.jitted.clear_cache()
    return np.asarray(world.jitted(x, world.plus))


def _jax_scan(world: World, x: Array) -> Array:
    import jax

    def turn(carry: Any, row: Any) -> Any:
        return carry, world.module.kernel(row, **world.options())

    return np.asarray(jax.jit(lambda a: jax.lax.scan(turn, 0, a)[1])(np.stack([x * 2, x])))[1]


def _torch(world: World, x: Array) -> Array:
    import torch

    result = world.module.kernel(torch.from_numpy(x), **world.options())
    return result.detach().numpy()


def _neuron(world: World, x: Array) -> Array:
    import torch
    import torch_neuronx  # noqa: F401

    tensor = torch.from_numpy(x.copy()).to("neuron")
    return world.module.kernel(tensor, **world.options()).cpu().numpy()


WAYS: dict[str, Callable[[World, Array], Array]] = {
    "direct": _direct, "simulate": _simulate, "neff": _neff, "threads": _threads, "fork": _fork,
    "process": _process, "files": _files, "jax": _jax, "jax again": _jax_again, "jax scan": _jax_scan,
    "torch": _torch, "torch neuron": _neuron,
}  # fmt: skip
IN_PLACE = ("direct", "simulate", "torch", "neff")
"""Ways in which the array given is the one that the kernel writes."""


def serve_histories() -> None:
    """Play (history, tag) until there are no more."""
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as name:
        sys.path.insert(0, name)
        os.environ["NKI_HLO_CACHE"] = str(Path(name) / "cache")
        serve(lambda request: {"fault": World(request[0], Path(name), request[1]).play()})
