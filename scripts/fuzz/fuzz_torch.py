"""PyTorch's own samples of its operators on the device "neuron", beside the CPU.

Usage: python scripts/fuzz/fuzz_torch.py [--seed N] [--count N] [--minutes M] [--keep FOLDER] [--json FILE]

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
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from children import Child, serve
from driving import Driver

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
    """What the child runs: a seed's faults by way."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from hlo_tools.frameworks import torch_device

    warnings.simplefilter("ignore")
    torch_device.install()
    known = [op for op in op_db if op.name not in UNDEFINED | HOSTS | DEADLY]

    def answer(seed: int) -> dict[str, Any]:
        chance = random.Random(seed)
        op = chance.choice(known)
        dtypes = [name for name in DTYPES if getattr(torch, name) in op.dtypes]
        if not dtypes:
            return {"runs": {}, "faults": {}}
        dtype = chance.choice(dtypes)
        torch.manual_seed(seed)
        runs, faults = Counter[str](), dict[str, str]()
        for sample in _samples(op, getattr(torch, dtype)):
            for way, run in _ways(op).items():
                told = _compared(run, sample)
                if told is not None:
                    runs[way] += 1
                    if told:
                        faults.setdefault(way, f"{op.name} {dtype}: {told}")
        return {"runs": dict(runs), "faults": faults}

    serve(answer, valid=True)


def _samples(op: Any, dtype: Any) -> Iterator[Any]:
    differentiable = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    try:
        made = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
        for _, sample in zip(range(SAMPLES), made, strict=False):
            if _strided(_tensors((sample.input, sample.args, sample.kwargs))):
                yield sample
    except Exception:  # the database's own: an operator that this build lacks
        return


def _strided(tensors: list[Any]) -> bool:
    import torch

    return all(one.layout is torch.strided for one in tensors)


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
        whole = torch.stack([x.detach(), x.detach()], -1)
        return [in_place(whole[..., 1], *args, **kwargs), whole]

    def given(x: Any, args: Any, kwargs: Any, device: str) -> list[Any]:
        kwargs.pop("device", None)
        with torch.no_grad():
            made = op(x, *args, **kwargs)
            out = torch.empty(0, dtype=made.dtype, device=device)
            return [op(x, *args, out=out, **kwargs), out]

    def gradient(x: Any, args: Any, kwargs: Any, _: str) -> list[Any]:
        leaves = [one for one in _tensors((x, args, kwargs)) if one.requires_grad]
        made = [one for one in _tensors(op(x, *args, **kwargs)) if one.requires_grad]
        total = sum(one.real.sum() if one.is_complex() else one.sum() for one in made)
        return list(torch.autograd.grad(total, leaves, allow_unused=True))

    found: dict[str, Run] = {"call": call}
    if in_place is not None:
        found |= {"in place": inside, "in place of a part": part}
    if op.supports_out:
        found["out"] = given
    if op.supports_autograd:
        found["gradient"] = gradient
    return found


def _tensors(tree: Any) -> list[Any]:
    import torch
    from torch.utils import _pytree as pytree

    return [one for one in pytree.tree_leaves(tree) if isinstance(one, torch.Tensor)]


def _compared(run: Run, sample: Any) -> str | None:
    """What is wrong on the device; None when the CPU does not take the sample."""
    import torch

    state = torch.random.get_rng_state()
    try:
        wanted = _tensors(run(*_moved(sample, "cpu"), "cpu"))
    except Exception:
        return None
    if not _strided(wanted):
        return None
    torch.random.set_rng_state(state)
    try:
        found = _tensors(run(*_moved(sample, "neuron"), "neuron"))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if len(wanted) != len(found):
        return f"{len(found)} tensors instead of {len(wanted)}"
    for want, have in zip(wanted, found, strict=True):
        told = _difference(want, have)
        if told:
            return told
    return ""


def _moved(sample: Any, device: str) -> tuple[Any, Any, Any]:
    """Copies of a sample's tensors on a device, and the device where a keyword names one."""
    import torch
    from torch.utils import _pytree as pytree

    def copy(one: Any) -> Any:
        return one.detach().clone().to(device).requires_grad_(one.requires_grad)

    x, args, kwargs = pytree.tree_map_only(
        torch.Tensor, copy, (sample.input, sample.args, sample.kwargs)
    )
    return x, args, {name: device if name == "device" else one for name, one in kwargs.items()}


def _difference(want: Any, have: Any) -> str:
    import torch

    if have.device.type != "neuron":
        return f"the result is on {have.device}"
    have = have.detach().cpu()
    if want.dtype != have.dtype or want.shape != have.shape:
        return f"{have.dtype}{list(have.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.is_quantized or not want.numel():
        return ""
    if not (want.is_floating_point() or want.is_complex()):
        unequal = int((want.detach() != have).sum())
        return f"{unequal} of {want.numel()} integers differ" if unequal else ""
    kind = torch.complex128 if want.is_complex() else torch.float64
    one, other = want.detach().to(kind), have.to(kind)
    name = str(want.dtype).removeprefix("torch.")
    relative, absolute = ERRORS.get(name, (1e-4, 1e-5))
    if name in ERRORS:
        absolute = max(absolute, relative * float(one.abs().nan_to_num(0, 0, 0).max()))
    alike = torch.isclose(one, other, rtol=relative, atol=absolute, equal_nan=True)
    return "" if bool(alike.all()) else f"{int((~alike).sum())} of {want.numel()} elements differ"


def main() -> int:
    """Run from the command line."""
    driver, child = Driver(__doc__).parse(), Child("fuzz_torch:answers")
    runs: Counter[str] = Counter()
    for seed in driver.seeds():
        answer = child.ask(seed)
        found = answer["faults"] if "faults" in answer else {"child": answer["error"]}
        runs.update(answer.get("runs", {}))
        for way, told in found.items():
            fault = {"seed": seed, "way": way, "fault": told}
            driver.found(fault, f"seed {seed}: {way}: {told}", f"{seed}-{way}.txt")
    child.stop()
    return driver.finish("operators", runs)


if __name__ == "__main__":
    sys.exit(main())
