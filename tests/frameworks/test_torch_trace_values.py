"""torch_neuronx.trace keeps no value of the examples: torch's result for other inputs, or a refusal."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.torch_xla, pytest.mark.filterwarnings("default")]

PRELUDE = """
    import random
    import torch
    import torch.nn.functional as F
    import torch_neuronx
    from torch.utils._pytree import tree_leaves

    torch.manual_seed(0)

    def check(func, example, *inputs):
        traced = torch_neuronx.trace(func, example)
        for x in inputs:
            x = x if isinstance(x, tuple) else (x,)
            want = tree_leaves(func(*(t.clone() for t in x)))
            have = tree_leaves(traced(*(t.clone() for t in x)))
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-4, equal_nan=True)

    def refused(func, *example):
        try:
            torch_neuronx.trace(func, example)
        except Exception as error:
            place, line = error.place.rsplit(":", 1)
            assert place == __file__, error
            return error.code, int(line) - func.__code__.co_firstlineno
        return "traced"
"""

REPLACED = """
    nan, inf = float("nan"), float("inf")
    image = torch.rand(1, 2, 6, 7)
    grid = torch.rand(1, 4, 4, 2) * 2 - 1
    edges = torch.tensor([0.1, 0.4, 0.4, 0.9])

    def put(x):
        x = x.clone()
        x[x > 0.5] = 3
        y = torch.zeros(4, device=x.device)
        y[1:] = x[1:]
        y[0] = x[1]
        return y

    check(lambda x: F.grid_sample(x, grid, align_corners=False), torch.zeros(1, 2, 6, 7), image)
    check(lambda x: (F.interpolate(x, size=(9, 11), mode="bicubic"), F.unfold(x, 3),
                     F.adaptive_avg_pool2d(x, (4, 5)),
                     *F.adaptive_max_pool2d(x, (4, 5), return_indices=True)),
          torch.zeros(1, 2, 6, 7), image)
    check(torch.lgamma, torch.ones(5), torch.tensor([3, nan, -2.5, 0, 170]),
          torch.tensor([0.3, 1e-6, -1, inf, 1e10]))
    check(lambda x: (*torch.unsafe_chunk(x, 2, 1), torch.norm(x, inf), torch.norm(x, -inf, dim=1)),
          torch.zeros(2, 5), torch.rand(2, 5) - 0.5)
    check(put, torch.ones(4), torch.rand(4), torch.tensor([nan, 0.6, 0.4, 2]))
    check(lambda x: (x.median(), *x.median(1), torch.logcumsumexp(x * 50, 1)),
          torch.ones(3, 4), torch.rand(3, 4), torch.tensor([[1, nan, 4, nan], [3, 1, 2, 0], [3, 2, 0, 1]]))
    check(lambda x: (torch.searchsorted(edges, x), torch.searchsorted(edges, x, right=True),
                     torch.bucketize(x, edges, right=True)),
          torch.ones(5), torch.tensor([0.4, 0.9, 0, nan, 2]))
    index = torch.tensor([0, 1, 1, 2])
    for included in (True, False):
        check(lambda x: x.scatter_reduce(0, index.to(x.device), x * 2, "mean", include_self=included),
              torch.ones(4), torch.rand(4))
    for dimension_kept in (True, False):
        check(lambda x: (torch.aminmax(x, dim=0, keepdim=dimension_kept), x.any(0), x.argmax(0),
                         x.sum(0), x.sort(), x.max(0), x.softmax(0), torch.var_mean(x, 0, correction=0)),
              torch.tensor(1.0), torch.tensor(0.0), torch.tensor(-3.0))
    for padding, ceiled, counted, divisor in ((1, False, True, None), (1, True, False, None),
                                              (0, True, True, None), (1, False, False, 5)):
        check(lambda x: F.avg_pool2d(x, 3, 2, padding, ceiled, counted, divisor),
              torch.zeros(1, 2, 6, 7), image)
    # Scalars of one value are no constants, and not each other.
    unit = torch.tensor(1.0)
    check(lambda x, y: (x + 2 * y, x * unit), (unit, unit), (torch.tensor(3.0), torch.tensor(4.0)))
    # What depends on constants alone may be read.
    check(lambda x: x * edges.to(x.device).max().item(), torch.ones(4), torch.rand(4))
"""


def test_operators_that_torch_xla_computes_on_the_cpu(run_script: Any) -> None:
    done = run_script(PRELUDE + REPLACED)
    assert done.returncode == 0, done.stderr


REFUSED = """
    library = torch.library.Library("sample", "DEF")
    library.define("shortened(Tensor x) -> Tensor")
    library.impl("shortened", torch.empty_like, "Meta")
    library.impl("shortened", lambda x: x[:1] * 1, "XLA")
    layer = torch.nn.Linear(3, 3)
    layer.register_forward_hook(lambda module, inputs, result: result * result.max().item())

    def branch(x):
        return x if x.sum() > 0 else -x

    def printed(x):
        print(x)
        return x

    def caught(x):
        try:
            return x * int(x.sum())
        except Exception:
            return x

    def run_between(x):
        import torch_xla
        y = x + 1
        torch_xla.sync()
        return y * 2

    def cast(x):
        with torch.autocast("xla", dtype=torch.bfloat16):
            return (x @ x) * bool(x.any())

    x = torch.ones(3)
    for func in (branch, printed, caught, run_between, lambda x: x + torch.tensor(x.tolist()),
                 lambda x: x + torch.from_numpy(x.numpy()), lambda x: x.cpu() * 2, lambda x: x[x[0].long()],
                 lambda x: torch.zeros(int(x[0]))):
        print(*refused(func, x), end=" ")
    print(*refused(cast, torch.ones(3, 3)))
    for func in (torch.nonzero, torch.unique, torch.bincount):
        print(*refused(lambda x: func(x.long()), x), end=" ")
    print(*refused(lambda x: x[x > 0], x), *refused(lambda x: torch.linalg.det(x), torch.eye(3)),
          *refused(lambda x: torch.ops.sample.shortened(x), x))
    for func in (F.dropout, torch.rand_like):
        print(*refused(lambda x: func(x), x), end=" ")
    print(*refused(lambda x: x * torch.rand(3), x), *refused(lambda x: x * random.random(), x))
    try:
        torch_neuronx.trace(layer, x)
    except Exception as error:
        print(error.code)
"""


def test_what_needs_a_value_is_refused_at_its_line(run_script: Any) -> None:
    done = run_script(PRELUDE + REFUSED)
    assert done.stdout.splitlines() == [
        " ".join(f"NEFF-TRACE-READ {line}" for line in (1, 1, 2, 4, 0, 0, 0, 0, 0, 2)),
        5 * "NEFF-TRACE-HOST 0 " + "NEFF-TRACE-OPERATOR 0",
        " ".join(4 * ["NEFF-TRACE-RANDOM 0"]),
        "NEFF-TRACE-READ",
    ], done.stderr
    assert done.returncode == 0, done.stderr


STATE = """
    import copy

    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)
            self.scale = 2 * torch.ones(3)
            self.calls = 0

        def forward(self, x):
            self.calls, self.last = self.calls + 1, x
            y = self.norm(x) * self.scale
            return y, self.norm.running_mean, self.norm.running_var

    class Cache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("rows", torch.zeros(3, 4))
            self.register_buffer("count", torch.tensor(0))

        def forward(self, x):
            self.rows[1:] = self.rows[:-1].clone()
            self.rows[0] = x
            self.count += 1
            return self.rows.sum(0) * self.count

    for module, shape in ((Norm(), (5, 3)), (Cache(), (4,))):
        traced = torch_neuronx.trace(module, torch.ones(shape))
        eager = copy.deepcopy(module)
        for _ in range(3):
            x = torch.rand(shape)
            torch.testing.assert_close(traced(x), eager(x))

    def add_in_place(x):
        x += 1
        return x * 2

    traced, x = torch_neuronx.trace(add_in_place, torch.ones(3)), torch.zeros(3)
    assert traced(x).tolist() == [2, 2, 2] and x.tolist() == [1, 1, 1]

    class Counter(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    class Average(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3, momentum=None)

        def forward(self, x):
            return self.norm(x), self.norm.running_mean

    closed = torch.nn.BatchNorm1d(3)
    log = torch.zeros(3)
    x = torch.ones(5, 3)
    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = type("Plain", (), {})()
            self.plain.total = torch.zeros(3)

        def forward(self, x):
            self.plain.total = self.plain.total + x.sum(0)
            return self.plain.total * 1

    calls = []
    for func in (Counter(), Average(), Holder(), lambda x: closed(x), lambda x: log.add_(1) + x,
                 lambda x: x * (calls.append(1) or len(calls))):
        try:
            torch_neuronx.trace(func, x)
        except Exception as error:
            print(error.code, error.place.startswith(__file__))

    traced = torch_neuronx.trace(lambda x, n: x * n, (x, 3))
    try:
        traced(x, 4)
    except ValueError as error:
        print(error)
"""


def test_state_that_no_call_would_keep_is_refused(run_script: Any) -> None:
    done = run_script(PRELUDE + STATE)
    assert done.stdout.splitlines() == [
        *(6 * ["NEFF-TRACE-STATE True"]),
        "the model was traced for float32[5, 3], 3, it was called with float32[5, 3], 4; trace it "
        "again for other arguments",
    ], done.stderr
    assert done.returncode == 0, done.stderr
