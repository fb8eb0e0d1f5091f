"""Random small NumPy functions: views, writes in place, steps, index arrays and loops."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass, replace

import numpy as np

from tests.fuzz.drivers.numpy_cases import Array, build

__all__ = ["Program", "programs", "shorter"]

SHAPES = ((4,), (2, 3), (3, 4), (2, 2, 3), (6,))
DTYPES = ("float32", "float32", "int32", "float16", "int8", "uint8", "bool", "complex64")
VIEWS = (
    "{}[1:]", "{}[::2]", "{}[::-1]", "{}[..., 0]", "{}[0]", "{}[-1]", "{}.T", "{}.reshape(-1)",
    "{}.ravel()", "{}[None]", "{}[..., None]", "np.flip({})", "np.squeeze({}[:1])", "{}[...]",
    "{}[..., ::-1]", "np.split({}, 1)[0]", "{}.reshape({}.shape[::-1])", "np.swapaxes({}, 0, -1)",
    "{}.ravel('K')", "np.atleast_2d({})", "np.moveaxis({}, 0, -1)", "{}[i[0]]", "{}[..., i[1]]",
    "np.broadcast_to({}, (2, *{}.shape))", "{}.view({}.dtype)", "{}.astype({}.dtype, copy=False)",
    "{}.real", "{}.imag", "{}.conj()",
)  # fmt: skip
COPIES = (
    "{} + 1", "{} * {}", "{}.copy()", "np.copy({})", "{}[i]", "{}[[0, -1]]", "{}[[1, 0]]",
    "np.where({} > 1, {}, 0)", "np.maximum({}, 1)", "np.cumsum({}, 0)", "np.sort({}, -1)",
    "np.concatenate([{}, {}])", "np.roll({}, 1)", "np.zeros_like({})", "{}.flatten()", "np.abs({})",
    "np.tile({}, 2)", "np.repeat({}, 2)", "{}.astype(np.float32)", "{} - {}.min()", "np.sum({})",
    "{}.max()", "np.sum({}, 0)", "np.mean({}, -1)", "np.argmax({})", "{} == {}[0]", "np.clip({}, 0, 3)",
    "{}.__copy__()", "{}.__deepcopy__(dict())", "{} != None", "{}.flat[1:]", "{}.flat[-1]",
)  # fmt: skip
TARGETS = (
    "{}[...]", "{}[0]", "{}[-1]", "{}[::2]", "{}[1:]", "{}[..., 0]", "{}[::-1]", "{}[[0]]", "{}[i[0]]",
    "{}[[1, 0]]", "{}[{} > 1]", "{}[..., ::2]", "{}.T[0]", "{}.reshape(-1)[0]", "{}[None][0]",
    "{}.flat[1:]", "{}.flat[[0, -1]]", "{}.flat[1]", "{}.flat", "{}.real",
)  # fmt: skip
VALUES = (
    "1",
    "0",
    "3",
    "{}",
    "{}[0]",
    "{}[::-1]",
    "{} * 2",
    "{}[-1]",
    "{}.sum()",
    "{}.T",
    "2.5",
    "True",
)


@dataclass(frozen=True, slots=True)
class Program:
    """Statements over arrays ``a``, ``b`` and the indices ``i``, and the names that they make."""

    lines: tuple[str, ...]
    names: tuple[str, ...]
    arrays: tuple[tuple[str, Array], ...]
    exact: bool = False

    @property
    def text(self) -> str:
        arguments = ", ".join(name for name, _ in self.arrays)
        body = [f"    {line}" for line in self.lines]
        shown = ", ".join(name for name in self.names if any(
            line.lstrip().startswith(f"{name} =") for line in self.lines))  # fmt: skip
        return "\n".join(
            [f"def f({arguments}):", *body, f"    return results([{shown}], {arguments})"]
        )


def programs(rng: random.Random) -> Program:
    """One random function."""
    names, lines = ["a", "b"], []
    defined: list[str] = []
    for number in range(rng.randint(2, 7)):
        kind = rng.choices(
            ("view", "copy", "write", "add", "loop", "swap", "ufunc"), (5, 3, 5, 3, 1, 1, 1)
        )[0]
        first, second = rng.choice(names), rng.choice(names)

        def filled(pattern: str, left: str = first, right: str = second) -> str:
            return pattern.replace("{}", left, 1).replace(
                "{}",
                left if "view" in pattern or "shape" in pattern or "astype" in pattern else right,
            )

        if kind in ("view", "copy"):
            name = f"v{number}"
            lines.append(f"{name} = {filled(rng.choice(VIEWS if kind == 'view' else COPIES))}")
            names.append(name)
            defined.append(name)
            continue
        target = rng.choice(TARGETS).replace("{}", first)
        value = rng.choice(VALUES).replace("{}", second)
        if kind == "write":
            lines.append(f"{target} = {value}")
        elif kind == "add":
            left = rng.choice((first, target))
            lines.append(f"{left} {rng.choice(('+', '-', '*', '//'))}= {value}")
        elif kind == "loop":
            lines.append(
                f"for k in range(len({first})): {first}[k] {rng.choice(('=', '+='))} {first}[-k - 1] + k"
            )
        elif kind == "swap":
            lines.append(f"{first}[0], {first}[-1] = {first}[-1], {first}[0]")
        else:
            lines.append(f"np.add({first}, {value}, out={rng.choice(names)}, casting='unsafe')")
    shape, dtype = rng.choice(SHAPES), rng.choice(DTYPES)
    arrays = (
        ("a", Array(dtype, shape, rng.choice(("C", "C", "F", "step", "back")), rng.randrange(999))),
        ("b", Array(rng.choice((dtype, "float32")), rng.choice((shape, shape[-1:])), "C", rng.randrange(999))),
        ("i", Array("int32", (2,), "C", rng.randrange(99), False, 1)),
    )  # fmt: skip
    return _running(Program(tuple(lines), tuple(defined), arrays))


def _running(program: Program) -> Program:
    """Without the lines that NumPy does not take."""
    kept_lines: tuple[str, ...] = ()
    for line in program.lines:
        longer = replace(program, lines=(*kept_lines, line))
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                build(longer)(*(array.make() for _, array in program.arrays))
        except Exception:
            continue
        kept_lines = longer.lines
    return replace(program, lines=kept_lines)


def shorter(program: Program) -> list[Program]:
    """The program without one of its lines."""
    lines = program.lines
    return [
        replace(program, lines=lines[:position] + lines[position + 1 :])
        for position in range(len(lines))
    ]
