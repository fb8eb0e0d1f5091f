"""Runs a script whose expressions have hooks, and records facts about its beta 1 kernels."""

from __future__ import annotations

import inspect
import linecache
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hlo_tools.migrate.facts import (
    REDUCED_PARAMETERS,
    BlocksFact,
    CallFact,
    Fact,
    Facts,
    GridFact,
    IndexFact,
    MaskFact,
    NumberFact,
    Place,
    PlainFact,
    TileFact,
)
from hlo_tools.migrate.instrument import CALL_HOOK, TARGET_HOOK, VALUE_HOOK, instrument
from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.base.errors import NkiError
from nki_lang.beta1 import compiler, isa, language
from nki_lang.beta1.creation import BlockTensor
from nki_lang.beta1.index import Grid, IndexExpression, Mask
from nki_lang.beta1.kernel import Beta1Kernel, jit, simulate_kernel
from nki_lang.beta1.mask import mask_boxes
from nki_lang.beta1.operands import operator_of
from nki_lang.beta1.session import Session, session_or_none
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import Value
from nki_lang.frontend.builder import active
from nki_lang.kernel import Kernel
from nki_lang.kernel import simulate as simulate_current
from nki_lang.kernel import trace as trace_current

__all__ = ["Launch", "Recorder", "host_copy", "run_recorded"]

MODULE_NAME = "__nki_migrate__"
"""Name of the module that a recorded script runs as, unless it runs as ``__main__``."""

MAX_LAUNCHES = 8
"""Calls of a kernel whose arguments are copies for the proof."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A call of a kernel by the script.

    Attributes:
        kernel: name of its function.
        grid: extents of the launch grid.
        args: positional arguments.
        kwargs: arguments by name.
    """

    kernel: str
    grid: tuple[int, ...]
    args: tuple[Value, ...]
    kwargs: Mapping[str, Value]


@dataclass(slots=True)
class Recorder:
    """The hooks of a script, and what they recorded.

    Attributes:
        places: place of each hook's expression.
        facts: what is recorded.
        launches: calls of kernels.
        simulated: what ``nki.simulate`` returned, by identity, with its kernel.
    """

    places: list[Place]
    facts: Facts = field(default_factory=Facts)
    launches: list[Launch] = field(default_factory=list[Launch])
    simulated: dict[int, tuple[Value, Value]] = field(
        default_factory=dict[int, tuple[Value, Value]]
    )

    def value(self, number: int, value: Value) -> Value:
        """Hook of a value."""
        session = session_or_none()
        if session is not None:
            fact = fact_of(value, session)
            if fact is not None:
                self.facts.add_value(self.places[number], fact)
        return value

    def target(self, number: int, base: Value) -> Value:
        """Hook of the base of a subscript that is assigned to."""
        if session_or_none() is None or not isinstance(base, (Tile, BlockTensor)):
            return _Ignoring()
        return _Target(self, number, base)

    def call(self, number: int, /, *args: Value, **kwargs: Value) -> Value:
        """Hook of a call: make it, and record it if the function is of the language."""
        called, arguments = args[0], args[1:]
        session = session_or_none()
        if session is None:
            if active() is None:
                self._note_launch(called, arguments, kwargs)
            result = called(*arguments, **kwargs)
            if called is simulate_current and arguments:
                self.simulated[id(result)] = result, arguments[0]
            return result
        name = function_name(called)
        passed = _bound(called, arguments, kwargs) if name else {}
        facts = tuple(
            (key, fact_of(value, session) or PlainFact(type(value).__name__))
            for key, value in passed.items()
        )
        location = self.places[number]
        try:
            result = called(*arguments, **kwargs)
        except Exception:
            if name in _WITHOUT_RESULT:  # a test may expect the error
                self.facts.add_call(
                    location,
                    CallFact(name, facts, tuple(passed)[: len(arguments)], PlainFact("NoneType")),
                )
            raise
        fact = fact_of(result, session)
        if fact is not None:
            self.facts.add_value(location, fact)
        if name:
            boxes = _box_count(name, passed, result)
            positional = tuple(passed)[: len(arguments)]
            self.facts.add_call(
                location,
                CallFact(name, facts, positional, fact or PlainFact(type(result).__name__),
                         boxes == 0, boxes > 1),
            )  # fmt: skip
        return result

    def launch(
        self, called: Value, name: str, grid: tuple[int, ...], arguments: Mapping[str, Value]
    ) -> None:
        """Call a kernel by name, as a script would."""
        kernel = called if isinstance(called, Beta1Kernel) else jit(called)
        self.launches.append(
            Launch(name, grid, (), {key: host_copy(value) for key, value in arguments.items()})
        )
        trace_current(kernel[grid] if grid else kernel, (), dict(arguments))

    def _note_launch(
        self, called: Value, args: tuple[Value, ...], kwargs: Mapping[str, Value]
    ) -> None:
        if called is simulate_kernel and args:
            called, args = args[0], args[1:]
        kernel = (
            self.simulated[id(called)][1]
            if id(called) in self.simulated
            else getattr(called, "kernel", called)
        )
        if not isinstance(kernel, Kernel):
            return
        function: Value = kernel.func
        name, grid = getattr(function, "__name__", ""), kernel.grid
        if isinstance(kernel, Beta1Kernel):
            name, grid = function.func.__name__, function.grid
        if sum(launch.kernel == name for launch in self.launches) < MAX_LAUNCHES:
            copies = tuple(host_copy(value) for value in args)
            named = {key: host_copy(value) for key, value in kwargs.items()}
            self.launches.append(Launch(name, grid, copies, named))


_WITHOUT_RESULT = frozenset({"nl.store", "nisa.dma_copy"})
"""Functions whose calls are known without their result."""


def host_copy(value: Value) -> Value:
    """Return a copy of an argument; tensors of PyTorch and JAX as arrays of NumPy."""
    if not (hasattr(value, "__array__") and hasattr(value, "shape")):
        return value
    if not hasattr(value, "detach"):
        return np.array(value)
    host = value.detach().cpu()
    try:
        return host.numpy().copy()
    except TypeError:  # a type of PyTorch that NumPy lacks, such as bfloat16
        name = str(host.dtype).rpartition(".")[2]
        return host.float().numpy().astype(dtype_of(name).dtype)


class _Ignoring:
    """The base of a target that is no tile: its subscript is not evaluated."""

    __slots__ = ()

    def __getitem__(self, key: Value) -> None:
        return None


class _Target:
    __slots__ = ("base", "number", "recorder")

    def __init__(self, recorder: Recorder, number: int, base: Value) -> None:
        self.recorder, self.number, self.base = recorder, number, base

    def __getitem__(self, key: Value) -> None:
        self.recorder.value(self.number, self.base[key])


def run_recorded(
    path: Path, source: str, folder: Path, as_script: bool
) -> tuple[Recorder, dict[str, Value]]:
    """Run a script with hooks and return what they recorded, and the script's names.

    Args:
        path: the script; modules beside it can be imported.
        source: its text.
        folder: for the changed source, which beta 1 reads again.
        as_script: run it as ``__main__``.
    """
    changed = instrument(source)
    recorder = Recorder(changed.places)
    file = folder / path.name
    file.write_text(changed.text)
    linecache.checkcache(str(file))
    module = types.ModuleType("__main__" if as_script else MODULE_NAME)
    module.__file__ = str(path)
    names = vars(module)
    names |= {VALUE_HOOK: recorder.value, CALL_HOOK: recorder.call, TARGET_HOOK: recorder.target}
    code = compile(changed.text, str(file), "exec", dont_inherit=True)
    earlier = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(path.parent))
    try:
        exec(code, names)
    finally:
        sys.path.remove(str(path.parent))
        if earlier is not None:
            sys.modules[module.__name__] = earlier
    return recorder, names


# -- facts of values ----------------------------------------------------------------------------


def fact_of(value: Value, session: Session) -> Fact | None:
    """Return the fact of a value, or None for a value that no rewrite looks at."""
    number: Value = value
    if isinstance(value, Tile):
        return _tile_fact(value, session)
    if isinstance(value, IndexExpression):
        return IndexFact(value.shape, value.steps)
    if isinstance(value, (bool, np.bool_)):
        return NumberFact(int(number), True)
    if isinstance(value, (int, np.integer)):
        return NumberFact(int(number))
    if isinstance(value, (float, np.floating)):
        return NumberFact(None)
    if isinstance(value, BlockTensor):
        region = str(getattr(value.buffer, "value", value.buffer))
        return BlocksFact(value.extents[len(value.prefix) :], value.inner, region)
    if isinstance(value, Mask):
        if value.relation is None:
            return MaskFact((), (), False)
        return MaskFact(value.relation[0].shape, value.relation[0].steps, True)
    if isinstance(value, Grid):
        return GridFact(len(value))
    if isinstance(value, DType):
        return PlainFact("dtype", value.name)
    if callable(value):
        return _operator_fact(value)
    return None


def _tile_fact(tile: Tile, session: Session) -> TileFact:
    forms = () if tile.forms is None else tuple(form.steps for form in tile.forms)
    return TileFact(
        tile.shape, tile.dtype.name, str(getattr(tile.buffer, "value", tile.buffer)),
        tuple(tile.base.shape), tuple(tile.base.strides), forms,
        tile.rows is not None or tile.scalar is not None,
        tile.base.storage.name in session.filled,
    )  # fmt: skip


def _operator_fact(value: Value) -> PlainFact | None:
    module = getattr(value, "__module__", "") or ""
    if not (isinstance(value, np.ufunc) or module.startswith(("numpy", "nki_lang"))):
        return None
    if isinstance(value, type):
        return PlainFact("dtype", getattr(value, "__name__", ""))
    try:
        operator = operator_of(value)
    except NkiError:
        return None
    return PlainFact(
        "numpy_operator"
        if isinstance(value, np.ufunc) or module.startswith("numpy")
        else "operator",
        operator.public,
    )


# -- functions ----------------------------------------------------------------------------------


def _public_functions() -> dict[int, str]:
    names: dict[int, str] = {}
    for prefix, module in (("nki.compiler.", compiler), ("nisa.", isa), ("nl.", language)):
        for name, value in vars(module).items():
            if callable(value) and not name.startswith("_") and not isinstance(value, type):
                names[id(value)] = prefix + name
    return names


_FUNCTIONS = _public_functions()


def function_name(called: Value) -> str:
    """Return the name of a function of the language as in a kernel, or ""."""
    if isinstance(getattr(called, "__self__", None), (Tile, BlockTensor)):
        return f"tile.{called.__name__}"
    return _FUNCTIONS.get(id(called), "")


def _bound(
    called: Callable[..., Value], args: tuple[Value, ...], kwargs: Mapping[str, Value]
) -> dict[str, Value]:
    """Return the arguments by parameter, those by position first."""
    parameters = list(inspect.signature(called).parameters.values())
    passed: dict[str, Value] = {}
    for location, value in enumerate(args):
        is_listed = location >= len(parameters) or parameters[location].kind in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.KEYWORD_ONLY,
        )
        passed[f"*{location}" if is_listed else parameters[location].name] = value
    return passed | dict(kwargs)


def _box_count(name: str, passed: Mapping[str, Value], result: Value) -> int:
    """Return the number of boxes that the mask leaves; 1 without a mask."""
    mask = passed.get("mask")
    reduced = passed.get(REDUCED_PARAMETERS.get(name, ""))
    tile = result if isinstance(result, Tile) else passed.get("dst")
    if isinstance(reduced, Tile) and len(reduced.shape) == 2:
        tile = reduced
    if not isinstance(mask, Mask) or not isinstance(tile, Tile):
        return 0 if mask is False else 1
    try:
        return len(mask_boxes(mask, tile.shape))
    except NkiError:
        return 2
