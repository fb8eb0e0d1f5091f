"""Run random calls of NumPy traced and untraced: what NumPy gives is right.

Usage: python -m tests.fuzz.drivers.fuzz_numpy [--seed N] [--count N] [--minutes N] [--json FILE]
           [--jaxlib SHARE] [--device SHARE] [--programs SHARE] [--show N]

Each case is traced and evaluated with ``hlo_tools.evaluate`` (a share in jaxlib instead, and a share
of what only moves elements as a NEFF, too), and compared
with NumPy: results, their dtypes, which of them are numbers, and the arguments afterwards. A difference is shrunk and shown as
a function of a few lines; those of one function and kind are counted together. Exit code 1 when
there was any. Cases run in a child process: what NumPy itself dies of is counted and left out. What differs on purpose is in docs/numpy-tracing.md; :func:`excused` knows it.
"""

from __future__ import annotations

import random
import re
import sys
import warnings
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from hlo_tools import HloError
from hlo_tools.evaluate import evaluate
from hlo_tools.trace import trace
from tests.fuzz.drivers.children import Child, serve
from tests.fuzz.drivers.driving import Driver
from tests.fuzz.drivers.numpy_cases import INTEGERS, Case, build, generate, shrunk
from tests.fuzz.drivers.numpy_programs import Program, programs, shorter

NARROWER = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}


def difference(case: Case | Program, *, jaxlib: bool = False) -> str:
    """Return the difference between NumPy and the traced function; "" when they agree.

    A refusal (a coded error) is no difference; an error where NumPy has none is. A program runs on
    other data than it was traced with, too.
    """
    kinds: list[Any] = []
    try:
        function = build(case, kinds)
    except SyntaxError:  # an argument by position and by name
        return ""
    expected, is_defined = _by_numpy(case, function)
    if not is_defined:
        return ""
    del kinds[1:]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            traced = trace(function, *_made(case))
        except HloError as error:
            return "" if error.code.startswith("HLO-TRACE") else f"refused with {error.code}"
        except Exception as error:
            if isinstance(expected, Exception) or any(excuse in str(error) for excuse in STRICTER):
                return ""
            return f"raises {type(error).__name__}: {error}"
    message = _differs(case, traced, expected, _made(case), jaxlib=jaxlib)
    if not message and len(kinds) == 2 and kinds[0] != kinds[1]:
        return f"kinds: {kinds[1]}, NumPy has {kinds[0]}"
    if message or not isinstance(case, Program):
        return message
    expected, is_defined = _by_numpy(case, function, 1000)
    if not is_defined:
        return ""
    return _differs(case, traced, expected, _made(case, 1000), jaxlib=jaxlib)


STRICTER = (
    "into shape ()", "could not be promoted by", "output array has shape",
    "Cannot cast array data to an index",  # a number of floats, which NumPy rounds down
    "matmul: output operand has shape",  # without dimensions of one element
    "setting an array element with a sequence",  # of one element, into a bool
    "einsum: an operand cannot be cast",  # NumPy forgets the dtype of one that only views
)  # fmt: skip
"""Errors of ours where NumPy takes what nobody means."""


def on_device(case: Case | Program) -> str:
    """Return the difference between NumPy and the function as a NEFF; equal arguments share an array."""
    from neff.nkipy_runtime import baremetal_jit

    try:
        function = build(case)
        trace(function, *_made(case))
    except Exception:  # what :func:`difference` looks at
        return ""
    expected, is_defined = _by_numpy(case, function, is_shared=True)
    if not is_defined or isinstance(expected, Exception):
        return ""
    try:
        results = baremetal_jit(function)(*_made(case, is_shared=True))
    except Exception as error:
        if getattr(error, "code", "") in ("NEFF-COMPLEX", "HLO-TRACE-ARGUMENT"):
            return ""  # the latter of an array that is written from itself
        return f"device: {type(error).__name__}: {error}"
    pairs = zip(expected, results if isinstance(results, tuple) else (results,), strict=True)
    messages = (
        _compare(np.asarray(wanted_value), actual, actual, case) for wanted_value, actual in pairs
    )
    return next((f"device: {text}" for text in messages if text), "")


def _made(case: Case | Program, shift: int = 0, *, is_shared: bool = False) -> list[Any]:
    """The arguments; one array for equal ones if they are shared."""
    arrays = [replace(array, seed=array.seed + shift) for _, array in case.arrays]
    if not is_shared:
        return [array.make() for array in arrays]
    built = {array: array.make() for array in arrays}
    return [built[array] for array in arrays]


def _by_numpy(
    case: Case | Program, function: Any, shift: int = 0, *, is_shared: bool = False
) -> tuple[Any, bool]:
    """NumPy's results or error; False when they are undefined: a float that no integer holds."""
    text, arrays = case.text, _made(case, shift, is_shared=is_shared)
    is_defined = not _is_undefined(text, arrays)
    with np.errstate(divide="warn", invalid="warn"), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            expected = function(*arrays)
        except Exception as error:
            expected = error
    words = [str(warning.message) for warning in warned]
    if "unsafe" in text and any(
        "divide by zero" in message or "invalid" in message for message in words
    ):
        return expected, False  # an infinity or NaN into integers of 8 and 16 bits warns of nothing
    is_defined = is_defined and not any("in cast" in message for message in words)
    if IN_16_BITS.search(text) and any("overflow" in message for message in words):
        return expected, False
    if _leaves_32_bits(text, arrays, expected):
        return expected, False
    return expected, is_defined and not _reads_what_it_wrote(case, expected, shift)


PRODUCTS = re.compile(r"\b(dot|inner|outer|vdot|matmul|tensordot|einsum|convolve|correlate)\(|@")


def _leaves_32_bits(text: str, arrays: list[Any], expected: Any) -> bool:
    """Sums of products that overflow, which a fused addition does not; products that overflow in one
    order and not in another; complex products of infinity,
    which BLAS multiplies by a complex 1, too; numbers of complex128 that
    complex64 cannot hold, where the tracer overflows on the way."""
    with np.errstate(all="ignore"):
        wide = [array.astype(np.float32) if array.dtype.kind == "V" else array for array in arrays]
        large = any(bool(np.any(np.isfinite(array) & (np.abs(array) > 1e37)))
                    for array in wide if array.dtype.kind in "fc")  # fmt: skip
        infinite = any(array.dtype.kind == "c" for array in arrays) and any(
            bool(np.any(np.isinf(array.astype(complex)))) for array in arrays)  # fmt: skip
        if (large or infinite or _is_skipped(text, arrays)) and PRODUCTS.search(text):
            return True
        has_integers = any(array.dtype.kind in "iub" for array in arrays)
        if large and has_integers and "average(" in text:  # of integers, in float64
            return True
        if large and re.search(r"prod\(|multiply\.(reduce|accumulate)", text):
            return True
        results = (
            [] if isinstance(expected, Exception) else [np.asarray(result) for result in expected]
        )
        wide = [result for result in results if result.dtype == np.complex128]
        return any(bool(np.any(np.isfinite(result) & (np.abs(result) > 1e37))) for result in wide)


def _is_skipped(text: str, arrays: list[Any]) -> bool:
    """Return True when infinities or NaN may be multiplied by 0, which BLAS skips."""
    beyond = any(not np.all(np.isfinite(array)) for array in arrays if array.dtype.kind in "fc")
    zero = re.search(r"[(,] ?(0|0\.0|False)[,)]", text) is not None
    return beyond and (zero or any(array.size == 1 and not np.any(array) for array in arrays))


ASSIGNED = re.compile(r"^(?!.*\], )(\s+[^=\n]*\]) = (.*)$", re.MULTILINE)


def _reads_what_it_wrote(case: Case | Program, expected: Any, shift: int) -> bool:
    """Return True when assigning copies changes the result.

    NumPy may read elements that it has just written when one-dimensional operands overlap."""
    copied = ASSIGNED.sub(r"\1 = np.array(\2)", case.text)
    if copied == case.text or isinstance(expected, Exception):
        return False
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from_copies = build(SimpleNamespace(text=copied))(*_made(case, shift))
        except Exception:
            return False
    pairs = zip(expected, from_copies, strict=True)
    return any(np.asarray(left).tobytes() != np.asarray(right).tobytes() for left, right in pairs)


IN_16_BITS = re.compile(r"\b(cumprod|cumsum|accumulate)\(.*dtype=np\.float16")
"""Functions that the tracer computes in 32 bits, so that intermediate values do not overflow."""


def _is_undefined(text: str, arrays: list[Any]) -> bool:
    """Where NumPy promises nothing, or the tracer another precision (docs/numpy-tracing.md).

    A mean in float16 that rounds, which the tracer keeps in float32; a cast of what no integer holds, which NumPy's reductions do without a warning; the order of NaN
    in types of ml_dtypes; angles, of which NumPy rounds twice, as whole numbers; sums and products of 16 bits that leave them, which are computed in 32; norms of ml_dtypes'
    floats, which NumPy computes in 64 bits; the root of -inf and -0.0 as a power, which NumPy gives arrays, but not numbers nor what it converts.
    """
    floats = [array.astype(np.float64) for array in arrays if array.dtype.kind not in "biuc"]
    sizes = [array.size for array in arrays]
    parts = [
        component
        for array in arrays
        if array.dtype.kind == "c"
        for component in (array.real, array.imag)
    ]
    with np.errstate(invalid="ignore"):
        is_large = any(
            bool(np.any(~(np.abs(component) < 2.0**31))) for component in (*floats, *parts)
        )
    rooted = [np.isneginf(array) | ((array == 0) & np.signbit(array)) for array in floats]
    if re.search(r"(\*\*=? ?|power\(.*)0\.5", text) and any(bool(np.any(mask)) for mask in rooted):
        return True
    large = [
        array
        for array in arrays
        if array.dtype.kind == "V" and np.any(np.abs(array.astype(float)) > 1e18)
    ]
    if large and "norm(" in text:
        return True
    into_integers = re.search(r"dtype=np\.u?int", text) is not None or (
        "out=" in text and any(array.dtype.kind in "iu" for array in arrays)
    )
    is_mean = re.search(r"(mean|average|var|std)\(", text) is not None
    if into_integers and (is_large or (is_mean and ("where" in text or not all(sizes)))):
        return True
    nan = any(bool(np.isnan(array.astype(np.float64)).any())
              for array in arrays if array.dtype.kind == "V")  # fmt: skip
    if nan and "sort" in text:
        return True
    if "unsafe" in text and re.search(r"\b(degrees|radians|rad2deg|deg2rad)\(", text):
        return True
    if "prod(" in text and any(_is_tiny(array) for array in arrays):
        return True
    return "dtype=np.float16" in text and any(_rounds_to_16_bits(array) for array in arrays)


def _is_tiny(array: Any) -> bool:
    """Return True when products of 16-bit floats may be rounded to zero."""
    sizes = np.abs(array.astype(float)) if array.dtype.kind in "fV" else np.zeros(0)
    return array.dtype.itemsize == 2 and bool(np.any((sizes > 0) & (sizes < 1e-30)))


def _rounds_to_16_bits(array: Any) -> bool:
    """Return True when float16 rounds an integer, or turns a 32-bit float into infinity."""
    if array.dtype.itemsize < 4 and array.dtype.kind not in "iu":
        return False
    values = array if array.dtype.kind == "c" else array.astype(np.float64)
    return bool(np.any(np.abs(values) > (2048 if array.dtype.kind in "iu" else 6e4)))


def _differs(
    case: Case | Program, traced: Any, expected: Any, inputs: list[Any], *, jaxlib: bool
) -> str:
    if isinstance(expected, Exception):
        is_excused = excused_error(expected)
        return "" if is_excused else f"NumPy raises {type(expected).__name__}: {expected}"
    try:
        results = _run(traced, inputs, jaxlib=jaxlib)
    except Exception as error:
        return f"module fails: {type(error).__name__}: {error}"
    for number, wanted_value in enumerate(expected):
        message = _compare(
            np.asarray(wanted_value), np.asarray(results[number]), traced.outputs[number], case
        )
        if message and not (
            jaxlib and message.startswith("sign of zero")
        ):  # XLA simplifies it away
            return f"result {number}: {message}"
    return ""


def _run(traced: Any, inputs: list[Any], *, jaxlib: bool) -> list[Any]:
    if not jaxlib:
        return evaluate(traced.to_module(), inputs)
    from tests.trace.running import run_proto

    return run_proto(traced.to_proto().SerializeToString(), inputs)


def excused_error(error: Exception) -> bool:
    """Errors of NumPy that depend on values."""
    words = str(error)
    return any(
        excuse in words
        for excuse in (
            "Integers to negative integer powers", "ZeroDivisionError", "Weights sum to zero",
            "out of bounds for axis", "Python integer", "cannot convert float", "can't multiply sequence",
            "invalid data type for einsum", "returned a result with an exception set", "output array is not acceptable", "could not be promoted by", "'bool' object has no", "dtype('float64')", "dtype('int64')", "dtype('uint64')",
        )
    )  # fmt: skip


def _compare(expected: Any, actual: Any, tensor: Any, case: Case | Program) -> str:
    name = NARROWER.get(str(expected.dtype), str(expected.dtype))
    if (
        expected.dtype == np.float64
        and actual.dtype.kind in "iu"
        and np.array_equal(expected, actual)
    ):
        return ""  # int64 and uint64 meet in float64, their 32-bit forms in an integer
    if str(tensor.dtype) != name or str(actual.dtype) != name:
        return f"dtype {tensor.dtype}/{actual.dtype}, NumPy has {expected.dtype}"
    if expected.shape != actual.shape:
        return f"shape {actual.shape}, NumPy has {expected.shape}"
    if not expected.size:
        return ""
    if _is_beyond_32_bits(expected, actual, case):
        return ""
    with np.errstate(all="ignore"):
        narrow = expected.astype(actual.dtype)
    if expected.dtype.kind in "biu":
        if np.array_equal(narrow, actual):
            return ""
        return f"{actual.tolist()}, NumPy has {expected.tolist()}"
    return _compare_floats(narrow, actual, case)


def _is_beyond_32_bits(expected: Any, actual: Any, case: Case | Program) -> bool:
    """Return True when NumPy may have computed a value in 64 bits that 32 bits cannot hold."""
    dtype = expected.dtype
    is_cut = isinstance(case, Program) and dtype.kind in "iu" and MEANS.search(case.text)
    if is_cut and np.all(np.abs(expected.astype(float) - actual.astype(float)) <= 1):
        return True  # the whole part of a float64 that float32 rounds to the next number
    if (
        dtype.itemsize == 8
        and dtype.kind != "c"
        and np.any(np.abs(expected.astype(float)) > 2.0**62)
    ):
        return True  # of a negative number as uint64
    if dtype.kind == "f" and np.any(expected.astype(float) == 2.0**64):
        return True  # the same, rounded
    dtypes = {array.dtype for _, array in case.arrays}
    is_large = any(array.special and array.dtype in ("int32", "uint32") for _, array in case.arrays)
    divides = _named(case) in REMAINDERS or REMAINDER.search(case.text) is not None
    is_wide = dtype == np.float64 or "float64" in dtypes or "float64" in case.text
    if divides and (is_wide or (MEANS.search(case.text) and dtypes & {"bool", *INTEGERS})):
        return True  # of a quotient that float32 rounds otherwise
    has_fraction = re.search(r"\d\.\d|dtype=np\.float32|close\(", case.text) is not None
    has_fraction = has_fraction or MEANS.search(case.text) is not None
    return is_large and (dtype.itemsize == 8 or len(dtypes) > 1 or has_fraction)


ZEROS = re.compile(
    r"\b(f?max|f?min|maximum|minimum|amax|amin|clip|ptp|sort|dot|inner|vdot|matmul|tensordot)\b"
)
"""Functions for which -0.0 and 0.0 are equally right: NumPy's choice depends on the width of its loops, and
the start of a sum of products on the BLAS function that it calls."""

REMAINDERS = frozenset({"np.fmod", "np.mod", "np.remainder", "np.floor_divide", "np.divmod"})
REMAINDER = re.compile(r"%|//|divmod\(")
MEANS = re.compile(r"\b(mean|average|std|var)\(|[^/]/[^/]")
"""Functions of integers that NumPy computes in float64."""


def _compare_floats(expected: Any, actual: Any, case: Case | Program) -> str:
    size = expected.dtype.itemsize if expected.dtype.kind != "c" else 4
    rough = 2e-2 if size < 4 and str(expected.dtype) == "bfloat16" else 4e-3 if size < 4 else 3e-5
    kind = complex if expected.dtype.kind == "c" else float
    a, b = expected.astype(kind), actual.astype(kind)
    finite = np.abs(a[np.isfinite(a)])
    scale = 1e-6 + (0 if case.exact else rough * (finite.max() if finite.size else 0))
    if not np.allclose(b, a, rtol=0 if case.exact else rough, atol=scale, equal_nan=True):
        return f"{actual.tolist()}, NumPy has {expected.tolist()}"
    zeros = (a == 0) & (b == 0) & (ZEROS.search(case.text) is None)
    if kind is float and np.any(np.signbit(a[zeros]) != np.signbit(b[zeros])):
        return f"sign of zero: {actual.tolist()}, NumPy has {expected.tolist()}"
    return ""


def told(case: Case | Program, what: str) -> str:
    """A difference as a program that shows it."""
    lines = [case.text]
    for name, array in case.arrays:
        values = array.make()
        lines.append(
            f"# {name}: {values.dtype}{list(values.shape)} {array.layout} {values.tolist()}"
        )
    return "\n".join([*lines, f"# {what}"])


def _named(case: Case | Program) -> str:
    if isinstance(case, Program):
        return "program"
    return case.function or case.body.strip("()")


def serve_cases() -> None:
    """The loop of the process that runs the cases: each with its place, or by NumPy alone."""

    def answer(request: tuple[Case | Program, str]) -> dict[str, Any]:
        case, location = request
        if not location:
            _by_numpy(case, build(case))
            return {"what": ""}
        if location == "device":
            return {"what": on_device(case)}
        return {"what": difference(case, jaxlib=location == "jaxlib")}

    serve(answer)


class Asked:
    """Cases that a child process runs, since NumPy dies of some calls.

    Attributes:
        deaths: how many cases NumPy alone died of.
    """

    def __init__(self) -> None:
        self._child = Child("tests.fuzz.drivers.fuzz_numpy:serve_cases")
        self.deaths = 0

    def difference(self, case: Case | Program, location: str) -> str:
        """As :func:`difference` in ``evaluate`` or ``jaxlib``, or :func:`on_device`; the end of the process
        or an exception of the driver is one, too."""
        reply = self._child.ask((case, location))
        if "error" not in reply:
            return reply["what"]
        if "error" in self._child.ask((case, "")):
            self.deaths += 1
            return ""
        return reply["error"]

    def shrunk(self, case: Case | Program, location: str) -> Case | Program:
        """The smallest case found that still differs."""

        def fails(candidate: Case | Program) -> bool:
            return bool(self.difference(candidate, location))

        if not isinstance(case, Program):
            return shrunk(case, fails)
        while True:
            smaller = next((candidate for candidate in shorter(case) if fails(candidate)), None)
            if smaller is None:
                return case
            case = smaller

    def stop(self) -> None:
        """End the process."""
        self._child.stop()


def for_device(case: Case | Program, rng: random.Random) -> Case | Program | None:
    """A case that a NEFF computes as NumPy does, often with one array passed twice."""
    if not (isinstance(case, Program) or case.exact):
        return None
    arrays = dict(case.arrays)
    if "b" in arrays and rng.random() < 0.5:
        arrays["b"] = arrays["a"]
    return replace(case, arrays=tuple(arrays.items()))


def main() -> int:
    driver = Driver(__doc__, keeps=False)
    driver.parser.add_argument("--jaxlib", type=float, default=0.0, help="share run there instead")
    driver.parser.add_argument("--device", type=float, default=0.02, help="share run there, too")
    driver.parser.add_argument("--programs", type=float, default=0.3, help="share of programs")
    driver.parser.add_argument("--show", type=int, default=1, help="cases shown of a kind")
    options = driver.parse().options
    asked = Asked()
    kinds: Counter[str] = Counter()
    for seed in driver.seeds():
        rng = random.Random(seed)
        case = programs(rng) if rng.random() < options.programs else generate(rng)
        placed_cases = {"jaxlib" if rng.random() < options.jaxlib else "evaluate": case}
        if rng.random() < options.device and (device_case := for_device(case, rng)):
            placed_cases["device"] = device_case
        for evaluator, placed_case in placed_cases.items():
            what = asked.difference(placed_case, evaluator)
            if not what:
                continue
            kind = f"{_named(placed_case)}: {what.split(':')[0][:40]}"
            kinds[kind] += 1
            if kinds[kind] <= options.show:
                small = asked.shrunk(placed_case, evaluator)
                source = told(small, asked.difference(small, evaluator))
                driver.found(
                    {"seed": seed, "kind": kind, "source": source}, f"# seed {seed}\n{source}\n"
                )
    asked.stop()
    return driver.finish(
        "calls", {"numpy": driver.done}, differences=kinds, deaths={"of NumPy alone": asked.deaths}
    )


if __name__ == "__main__":
    sys.exit(main())
