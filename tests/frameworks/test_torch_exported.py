"""torch_neuronx.trace by torch.export: values for other inputs, state, and refusals at their line."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

PRELUDE = """
    import random
    import numpy
    import torch
    import torch_neuronx
    from torch.utils._pytree import tree_leaves

    torch.manual_seed(0)
    a, b = torch.randn(4, 5), torch.randn(4, 5)

    def traced(func, example):
        return torch_neuronx.trace(func, example, inline_weights_to_neff=False)

    def check(func, example, *inputs):
        result = traced(func, example)
        for x in inputs:
            x = x if isinstance(x, tuple) else (x,)
            want = tree_leaves(func(*(t.clone() for t in x)))
            have = tree_leaves(result(*(t.clone() for t in x)))
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-4)

    def refused(func, *example):
        try:
            traced(func, example)
        except Exception as error:
            place, line = error.place.rsplit(":", 1)
            assert place == __file__, error
            return error.code, int(line) - func.__code__.co_firstlineno
        return "traced"
"""

VALUES = """
    from tests.frameworks import sample_kernels

    weight = torch.randn(5)
    check(lambda x: {"sum": x + 1, "rest": (x * weight,)}, a, a, b)
    check(lambda x, y: x - y, (a, a), (a, b), (b, a))

    def in_place(x, y):
        y.mul_(2)
        return x + y

    mine, theirs = b.clone(), b.clone()
    torch.testing.assert_close(traced(in_place, (a, a))(a, mine), in_place(a, theirs))
    torch.testing.assert_close(mine, theirs)
    x, y = torch.randn(2, 128, 512)
    check(sample_kernels.nki_tensor_add, (x, x), (x, y), (y, y))
    check(lambda x, y: torch.relu(sample_kernels.nki_tensor_add(x, y)) * y, (x, x), (x, y))

    check(lambda x: torch.meshgrid(x[0].float(), x[1].double().float(), indexing="ij"), a, a, b)
    for kwargs in ({"ceil_mode": True}, {"padding": 1, "count_include_pad": False}, {"divisor_override": 3}):
        pool = torch.nn.AvgPool2d(2, **kwargs)
        check(lambda x, pool=pool: pool(x), *torch.randn(3, 1, 2, 5, 7))
    check(lambda x: torch.nn.functional.adaptive_max_pool2d(x, (2, 3)), *torch.randn(3, 1, 2, 5, 7))
    for layer in (torch.nn.LSTM(5, 3, 2, bidirectional=True), torch.nn.GRU(5, 3), torch.nn.RNN(5, 3)):
        check(lambda x, layer=layer: layer(x), torch.randn(3, 2, 5), torch.randn(3, 2, 5))

        class Last(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = layer

            def forward(self, x):
                values, state = self.layer(x)
                return values, state[-1]

        check(Last().eval(), torch.randn(3, 2, 5), *torch.randn(2, 3, 2, 5))

    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(4, 5))
            self.norm = torch.nn.BatchNorm1d(5)

        def forward(self, x):
            self.total = self.total + x
            return self.norm(x) + self.total

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Transformer(4, 2, 1, 1, 8, batch_first=True)

        def forward(self, x):
            mask = torch.ones(3, 3).triu(1).bool()
            return self.body(x, x, tgt_mask=mask, src_key_padding_mask=x[..., 0] > 9)

    check(Masked().eval(), *torch.randn(3, 2, 3, 4))

    def attended(x):
        heads = x.unflatten(-1, (2, 2)).transpose(1, 2)
        y = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        return y.transpose(1, 2).reshape(2, 3, 4).view(-1, 4)

    check(attended, *torch.randn(3, 2, 3, 4))

    for model in (Counted(), torch.nn.Sequential(Counted())):
        result = traced(model, a)
        for x in (b, a, b):
            torch.testing.assert_close(result(x), model(x), rtol=1e-4, atol=1e-4)
    print("right")
"""

REFUSALS = """
    calls, total = [0], torch.zeros(4, 5)

    def condition(x):
        return x if x.sum() > 0 else -x

    def number(x):
        return x * x.sum().item()

    def array(x):
        return torch.from_numpy(x.numpy() * 2)

    def helped(x):
        return torch.linalg.eigvalsh(x @ x.T)

    def operator(x):
        return helped(x) + 1

    def drawn(x):
        return x + torch.rand(5)

    def python_drawn(x):
        return x + random.random()

    def masked(x):
        return x[x > 0]

    def counted(x):
        calls[0] += 1
        return x * calls[0]

    def accumulated(x):
        total.add_(x)
        return total * 1

    class Kept(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.count, self.sum = 0, torch.zeros(4, 5)

        def forward(self, x):
            self.sum = self.sum + x
            return self.sum * 2

    class Numbered(Kept):
        def forward(self, x):
            self.count += 1
            return x * self.count

    for func in (condition, number, array, drawn, python_drawn, masked, counted, accumulated):
        print(func.__name__, *refused(func, a))
    print("operator", refused(operator, a)[0])
    class Dropped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.LSTM(5, 3, 2, dropout=0.5)

        def forward(self, x):
            return self.layer(x)[0]

    for model in (Dropped(), Kept(), Numbered(), torch.nn.Sequential(Kept()), torch.nn.Sequential(Numbered())):
        try:
            traced(model, a)
        except Exception as error:
            print(type(model).__name__, error.code)
"""


def test_values_and_state(run_script: Any) -> None:
    done = run_script(PRELUDE + VALUES)
    assert done.stdout == "right\n", done.stderr[-3000:]


def test_refusals_at_their_line(run_script: Any) -> None:
    done = run_script(PRELUDE + REFUSALS)
    state = "NEFF-TRACE-STATE"
    assert done.stdout.splitlines() == [
        "condition NEFF-TRACE-READ 1",
        "number NEFF-TRACE-READ 0",
        "array NEFF-TRACE-READ 1",
        "drawn NEFF-TORCH-RANDOM 1",
        "python_drawn NEFF-TRACE-RANDOM 0",
        "masked NEFF-TORCH-DATA 1",
        f"counted {state} 0",
        f"accumulated {state} 0",
        "operator NEFF-TORCH-OPERATOR",
        "Dropped NEFF-TORCH-RANDOM",
        f"Kept {state}",
        f"Numbered {state}",
        f"Sequential {state}",
        f"Sequential {state}",
    ], done.stderr[-3000:]
