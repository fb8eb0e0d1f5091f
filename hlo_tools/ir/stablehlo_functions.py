"""Functions of one number that HLO has and StableHLO lacks, as the operations that both have.

Narrow floats are computed in f32. Sources: the rational approximations of erf are those of Eigen
(f32) and Cephes (f64), which XLA uses as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from hlo_tools.ir.stablehlo_emitter import Emitter
from hlo_tools.types.element_types import BY_NUMBER

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto

__all__ = ["FUNCTIONS"]

Function = Callable[[Emitter, "HloInstructionProto"], "HloInstructionProto"]

_F32_NUMERATOR: Final = (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
    -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02,
)  # fmt: skip
_F32_DENOMINATOR: Final = (
    -1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
    -1.42647390514189e-02,
)  # fmt: skip
_F64_NUMERATOR: Final = (
    9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3,
    7.00332514112805075473e3, 5.55923013010394962768e4,
)  # fmt: skip
_F64_DENOMINATOR: Final = (
    1.0, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3,
    2.26290000613890934246e4, 4.92673942608635921086e4,
)  # fmt: skip
_F64_TAIL_NUMERATOR: Final = (
    2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0,
    4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
    9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2,
)  # fmt: skip
_F64_TAIL_DENOMINATOR: Final = (
    1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
    9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3,
    1.65666309194161350182e3, 5.57535340817727675546e2,
)  # fmt: skip
_F32_SATURATION: Final = 4.0
_F64_SATURATION: Final = 6.0
"""From here on, erf rounds to 1."""


def _erf(emitter: Emitter, x: HloInstructionProto) -> HloInstructionProto:
    if BY_NUMBER[x.shape.element_type].name == "f64":
        return _erf_f64(emitter, x)
    limit = emitter.number(_F32_SATURATION, x)
    clamped = emitter.like("clamp", emitter.like("negate", limit), x, limit)
    square = emitter.like("multiply", clamped, clamped)
    product = emitter.like("multiply", clamped, _polynomial(emitter, square, _F32_NUMERATOR))
    ratio = emitter.like("divide", product, _polynomial(emitter, square, _F32_DENOMINATOR))
    unit = emitter.number(1, x)
    return emitter.like("clamp", emitter.like("negate", unit), ratio, unit)


def _erf_f64(emitter: Emitter, x: HloInstructionProto) -> HloInstructionProto:
    square = emitter.like("multiply", x, x)
    product = emitter.like("multiply", x, _polynomial(emitter, square, _F64_NUMERATOR))
    near = emitter.like("divide", product, _polynomial(emitter, square, _F64_DENOMINATOR))
    size = emitter.like("minimum", emitter.like("abs", x), emitter.number(_F64_SATURATION, x))
    decay = emitter.like(
        "exponential", emitter.like("negate", emitter.like("multiply", size, size))
    )
    scaled = emitter.like("multiply", decay, _polynomial(emitter, size, _F64_TAIL_NUMERATOR))
    complement = emitter.like("divide", scaled, _polynomial(emitter, size, _F64_TAIL_DENOMINATOR))
    unit = emitter.number(1, x)
    far = emitter.like(
        "multiply", emitter.like("sign", x), emitter.like("subtract", unit, complement)
    )
    is_near = emitter.compared("LT", emitter.like("abs", x), unit)
    return emitter.add("select", x.shape, is_near, near, far)


def _polynomial(
    emitter: Emitter, x: HloInstructionProto, coefficients: Sequence[float]
) -> HloInstructionProto:
    """Horner's scheme, the highest power first."""
    value = emitter.number(coefficients[0], x)
    for coefficient in coefficients[1:]:
        value = emitter.like(
            "add", emitter.like("multiply", value, x), emitter.number(coefficient, x)
        )
    return value


def _halves(
    emitter: Emitter, x: HloInstructionProto
) -> tuple[HloInstructionProto, HloInstructionProto]:
    """exp(|x|)/2 and exp(-|x|)/2; the former overflows no earlier than its value."""
    half = emitter.number(0.5, x)
    root = emitter.like("exponential", emitter.like("multiply", emitter.like("abs", x), half))
    rising = emitter.like("multiply", emitter.like("multiply", half, root), root)
    falling = emitter.like("divide", emitter.like("divide", half, root), root)
    return rising, falling


def _sinh(emitter: Emitter, x: HloInstructionProto) -> HloInstructionProto:
    rising, falling = _halves(emitter, x)
    far = emitter.like(
        "multiply", emitter.like("sign", x), emitter.like("subtract", rising, falling)
    )
    unit = emitter.number(1, x)
    growth = emitter.like("exponential-minus-one", x)
    ratio = emitter.like("divide", growth, emitter.like("add", growth, unit))
    near = emitter.like("multiply", emitter.number(0.5, x), emitter.like("add", growth, ratio))
    is_near = emitter.compared("LT", emitter.like("abs", x), unit)
    return emitter.add("select", x.shape, is_near, near, far)


def _cosh(emitter: Emitter, x: HloInstructionProto) -> HloInstructionProto:
    return emitter.like("add", *_halves(emitter, x))


def _asinh(emitter: Emitter, x: HloInstructionProto) -> HloInstructionProto:
    size = emitter.like("abs", x)
    unit = emitter.number(1, x)
    square = emitter.like("multiply", x, x)
    root = emitter.like("sqrt", emitter.like("add", square, unit))
    ratio = emitter.like("divide", square, emitter.like("add", unit, root))
    near = emitter.like("log-plus-one", emitter.like("add", size, ratio))
    chosen = _of_large(emitter, size, near)
    return emitter.like("multiply", emitter.like("sign", x), chosen)


def _acosh(emitter: Emitter, x: HloInstructionProto) -> HloInstructionProto:
    excess = emitter.like("subtract", x, emitter.number(1, x))
    root = emitter.like(
        "multiply",
        emitter.like("sqrt", excess),
        emitter.like("sqrt", emitter.like("add", x, emitter.number(1, x))),
    )
    near = emitter.like("log-plus-one", emitter.like("add", excess, root))
    return _of_large(emitter, x, near)


def _of_large(
    emitter: Emitter, x: HloInstructionProto, near: HloInstructionProto
) -> HloInstructionProto:
    """log(2x) where x*x overflows or loses 1, else ``near``."""
    limit = 2.0**500 if BY_NUMBER[x.shape.element_type].name == "f64" else 2.0**60
    far = emitter.like("add", emitter.like("log", x), emitter.number(math.log(2), x))
    is_far = emitter.compared("GT", x, emitter.number(limit, x))
    return emitter.add("select", x.shape, is_far, far, near)


def _atanh(emitter: Emitter, x: HloInstructionProto) -> HloInstructionProto:
    difference = emitter.like(
        "subtract",
        emitter.like("log-plus-one", x),
        emitter.like("log-plus-one", emitter.like("negate", x)),
    )
    return emitter.like("multiply", emitter.number(0.5, x), difference)


def _asin(emitter: Emitter, x: HloInstructionProto) -> HloInstructionProto:
    unit = emitter.number(1, x)
    product = emitter.like(
        "multiply", emitter.like("subtract", unit, x), emitter.like("add", unit, x)
    )
    denominator = emitter.like("add", unit, emitter.like("sqrt", product))
    half = emitter.like("atan2", x, denominator)
    return emitter.like("multiply", emitter.number(2, x), half)


def _acos(emitter: Emitter, x: HloInstructionProto) -> HloInstructionProto:
    unit = emitter.number(1, x)
    sine = emitter.like("sqrt", emitter.like("subtract", unit, x))
    cosine = emitter.like("sqrt", emitter.like("add", unit, x))
    return emitter.like("multiply", emitter.number(2, x), emitter.like("atan2", sine, cosine))


FUNCTIONS: dict[str, Function] = {
    "acos": _acos, "acosh": _acosh, "asin": _asin, "asinh": _asinh, "atanh": _atanh,
    "cosh": _cosh, "erf": _erf, "sinh": _sinh,
}  # fmt: skip
"""By opcode: a function of f32 or f64."""
