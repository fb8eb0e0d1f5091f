"""PyTorch's own samples of its operators on the device "neuron", beside the CPU.

Usage: python -m tests.fuzz.drivers.fuzz_torch [--seed N] [--count N] [--minutes M] [--keep FOLDER] [--json FILE]

Each seed takes an operator of PyTorch's test database (``torch.testing``, with the package
expecttest) with samples of one dtype that the seed makes: the call, its variant in place, also on a
part of a tensor, with ``out``, and the gradient. Results have to be on the device and the CPU's.
Operators run in a child process, since a fault of the device may end it. Exit code 1 when a result
differs, is elsewhere, or only the device raises.
"""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

from tests.fuzz.drivers.children import Child, serve
from tests.fuzz.drivers.driving import Driver

DTYPES = ("float32", "complex64", "bfloat16", "int64", "bool")
SAMPLES = 6
"""Samples of an operator that a seed runs, at most."""
UNDEFINED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip
"""Their elements are nobody's."""
HOSTS = {"tensor_split", "to"}
"""Take host memory on every device, or go there."""
DEADLY = {"mvlgamma"}
"""PyTorch 2.9 itself divides integers by zero and dies."""
ERRORS = {"bfloat16": (0.03, 0.03)}
"""Relative and absolute errors other than the rest's, the first also of the largest element: PyTorch
computes some gradients of other devices by other steps, each of which rounds, and sums cancel."""


def answers() -> None:
    """Return a seed's faults by execution mode, in the child process."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from hlo_tools.torch_device import device as torch_device

    warnings.simplefilter("ignore")
    torch_device.install()
    candidates = [op for op in op_db if op.name not in UNDEFINED | HOSTS | DEADLY]

    def answer(seed: int) -> dict[str, Any]:
        chance = random.Random(seed)
        op = chance.choice(candidates)
        dtypes = [name for name in DTYPES if getattr(torch, name) in op.dtypes]
        if not dtypes:
            return {"runs": {}, "faults": {}}
        dtype = chance.choice(dtypes)
        torch.manual_seed(seed)
        runs, faults = Counter[str](), dict[str, str]()
        for sample in _samples(op, getattr(torch, dtype)):
            for mode, run in _ways(op).items():
                message = _compared(run, sample)
                if message is not None:
                    runs[mode] += 1
                    if message:
                        faults.setdefault(mode, f"{op.name} {dtype}: {message}")
        return {"runs": dict(runs), "faults": faults}

    serve(answer, valid=True)


def _samples(op: Any, dtype: Any) -> Iterator[Any]:
    differentiable = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    try:
        samples = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
        for _, sample in zip(range(SAMPLES), samples, strict=False):
            if _strided(_tensors((sample.input, sample.args, sample.kwargs))):
                yield sample
    except Exception:  # the database's own: an operator that this build lacks
        return


def _strided(tensors: list[Any]) -> bool:
    import torch

    return all(tensor.layout is torch.strided for tensor in tensors)


Run = Callable[[Any, Any, Any, str], list[Any]]


def _ways(op: Any) -> dict[str, Run]:
    """Way -> (input, arguments, keywords, device) -> tensors."""
    import torch

    in_place = op.get_inplace()

    def call(x: Any, args: Any, kwargs: Any, _: str) -> list[Any]:
        return [op(x, *args, **kwargs)]

    def inside(x: Any, args: Any, kwargs: Any, _: str) -> list[Any]:
        x = x.detach().clone()
        return [in_place(x, *args, **kwargs), x]

    def part(x: Any, args: Any, kwargs: Any, _: str) -> list[Any]:
        stacked = torch.stack([x.detach(), x.detach()], -1)
        return [in_place(stacked[..., 1], *args, **kwargs), stacked]

    def given(x: Any, args: Any, kwargs: Any, device: str) -> list[Any]:
        kwargs.pop("device", None)
        with torch.no_grad():
            result = op(x, *args, **kwargs)
            out = torch.empty(0, dtype=result.dtype, device=device)
            return [op(x, *args, out=out, **kwargs), out]

    def gradient(x: Any, args: Any, kwargs: Any, _: str) -> list[Any]:
        leaves = [tensor for tensor in _tensors((x, args, kwargs)) if tensor.requires_grad]
        results = [tensor for tensor in _tensors(op(x, *args, **kwargs)) if tensor.requires_grad]
        total = sum(
            result.real.sum() if result.is_complex() else result.sum() for result in results
        )
        return list(torch.autograd.grad(total, leaves, allow_unused=True))

    runs: dict[str, Run] = {"call": call}
    if in_place is not None:
        runs |= {"in place": inside, "in place of a part": part}
    if op.supports_out:
        runs["out"] = given
    if op.supports_autograd:
        runs["gradient"] = gradient
    return runs


def _tensors(tree: Any) -> list[Any]:
    import torch
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _compared(run: Run, sample: Any) -> str | None:
    """Return the fault on the device; None when the CPU refuses the sample."""
    import torch

    state = torch.random.get_rng_state()
    try:
        expected = _tensors(run(*_moved(sample, "cpu"), "cpu"))
    except Exception:
        return None
    if not _strided(expected):
        return None
    torch.random.set_rng_state(state)
    try:
        actual = _tensors(run(*_moved(sample, "neuron"), "neuron"))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if len(expected) != len(actual):
        return f"{len(actual)} tensors instead of {len(expected)}"
    for wanted_value, have in zip(expected, actual, strict=True):
        message = _difference(wanted_value, have)
        if message:
            return message
    return ""


def _moved(sample: Any, device: str) -> tuple[Any, Any, Any]:
    """Copies of a sample's tensors on a device, and the device where a keyword names one."""
    import torch
    from torch.utils import _pytree as pytree

    def copy(tensor: Any) -> Any:
        return tensor.detach().clone().to(device).requires_grad_(tensor.requires_grad)

    x, args, kwargs = pytree.tree_map_only(
        torch.Tensor, copy, (sample.input, sample.args, sample.kwargs)
    )
    return x, args, {name: device if name == "device" else value for name, value in kwargs.items()}


def _difference(expected: Any, have: Any) -> str:
    import torch

    if have.device.type != "neuron":
        return f"the result is on {have.device}"
    have = have.detach().cpu()
    if expected.dtype != have.dtype or expected.shape != have.shape:
        return f"{have.dtype}{list(have.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if expected.is_quantized or not expected.numel():
        return ""
    if not (expected.is_floating_point() or expected.is_complex()):
        unequal = int((expected.detach() != have).sum())
        return f"{unequal} of {expected.numel()} integers differ" if unequal else ""
    kind = torch.complex128 if expected.is_complex() else torch.float64
    wide_want, wide_have = expected.detach().to(kind), have.to(kind)
    name = str(expected.dtype).removeprefix("torch.")
    relative, absolute = ERRORS.get(name, (1e-4, 1e-5))
    if name in ERRORS:
        absolute = max(absolute, relative * float(wide_want.abs().nan_to_num(0, 0, 0).max()))
    alike = torch.isclose(wide_want, wide_have, rtol=relative, atol=absolute, equal_nan=True)
    return (
        "" if bool(alike.all()) else f"{int((~alike).sum())} of {expected.numel()} elements differ"
    )


def main() -> int:
    """Run from the command line."""
    driver, child = Driver(__doc__).parse(), Child("tests.fuzz.drivers.fuzz_torch:answers")
    runs: Counter[str] = Counter()
    for seed in driver.seeds():
        answer = child.ask(seed)
        faults = answer["faults"] if "faults" in answer else {"child": answer["error"]}
        runs.update(answer.get("runs", {}))
        for mode, message in faults.items():
            fault = {"seed": seed, "way": mode, "fault": message}
            driver.found(fault, f"seed {seed}: {mode}: {message}", f"{seed}-{mode}.txt")
    child.stop()
    return driver.finish("operators", runs)


if __name__ == "__main__":
    sys.exit(main())
