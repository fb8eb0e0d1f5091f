"""Functions of complex numbers, in real arithmetic.

Intermediate results neither overflow nor lose all digits where the result itself does not: the
quotient is Smith's, the modulus divides by the larger part, the square root avoids a difference of
equal numbers. Results at infinite arguments are those of C's Annex G where a formula would give a
NaN and users can meet them: division by zero and by infinity, roots and exponentials.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

from neff.compiler.complex_pairs.arrays import Pair, RealArray

__all__ = ["BINARY", "UNARY", "equal", "modulus", "product", "unequal"]

_SIGNED_BITS = {"f32": "s32", "f64": "s64"}
"""Type of a part -> integers of the same size."""


def modulus(z: Pair) -> RealArray:
    """Return |z|, which overflows only where the result does."""
    x, y = abs(z.real), abs(z.imag)
    larger, smaller = x.add("maximum", y), x.add("minimum", y)
    ratio = larger.compare("EQ", 0.0).select(0.0, smaller / larger)
    length = larger * (ratio * ratio + 1.0).add("sqrt")
    return (z.real.is_infinite() | z.imag.is_infinite()).select(inf, length)


def _total(z: Pair, w: Pair) -> Pair:
    return Pair(z.real + w.real, z.imag + w.imag)


def _difference(z: Pair, w: Pair) -> Pair:
    return Pair(z.real - w.real, z.imag - w.imag)


def product(z: Pair, w: Pair) -> Pair:
    """Return z w by its definition."""
    return Pair(z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real)


def _quotient(z: Pair, w: Pair) -> Pair:
    """Smith's quotient: both divisors are scaled by the larger part of ``w``."""
    real_is_larger = abs(w.real).compare("GE", abs(w.imag))
    large = real_is_larger.select(w.real, w.imag)
    small = real_is_larger.select(w.imag, w.real)
    ratio = small / large
    divisor = large + small * ratio
    # z conj(w) / large is (a + b r, b - a r) when the real part is larger, else (a r + b, b r - a)
    first, second = real_is_larger.select(z.real, z.imag), real_is_larger.select(z.imag, z.real)
    cross = first * ratio - second
    real = (first + second * ratio) / divisor
    imag = real_is_larger.select(-cross, cross) / divisor
    # divided by zero: infinite with the signs of z, or NaN where z is zero, too
    is_zero = w.real.compare("EQ", 0.0) & w.imag.compare("EQ", 0.0)
    infinity = _with_sign(w.real.filled(inf), w.real)
    # divided by infinity: zero, unless z is infinite, too
    is_infinite = w.real.is_infinite() | w.imag.is_infinite()
    vanishes = is_infinite & _is_finite(z)
    # infinity divided by a finite number: infinite in the direction of the quotient
    grows = (z.real.is_infinite() | z.imag.is_infinite()) & _is_finite(w)
    grows = grows & _is_nan(real) & _is_nan(imag)
    a, b = _direction(z.real), _direction(z.imag)
    real = grows.select((a * w.real + b * w.imag) * inf, real)
    imag = grows.select((b * w.real - a * w.imag) * inf, imag)
    return Pair(
        vanishes.select(0.0, is_zero.select(infinity * z.real, real)),
        vanishes.select(0.0, is_zero.select(infinity * z.imag, imag)),
    )


def _is_nan(x: RealArray) -> RealArray:
    return x.compare("NE", x)


def _direction(x: RealArray) -> RealArray:
    """Return 1 for an infinite number and 0 for a finite one, with its sign."""
    return _with_sign(x.is_infinite().select(x.filled(1.0), 0.0), x)


def _is_finite(z: Pair) -> RealArray:
    real = z.real.add("is-finite", element="pred")
    return real & z.imag.add("is-finite", element="pred")


def _with_sign(size: RealArray, sign: RealArray) -> RealArray:
    """Return ``size``, which is not negative, with the sign of another number, also of -0.0."""
    bits = sign.add("bitcast-convert", element=_SIGNED_BITS[sign.shape.element.name])
    return bits.compare("LT", 0).select(-size, size)


def _negative(z: Pair) -> Pair:
    return Pair(-z.real, -z.imag)


def _argument(z: Pair) -> RealArray:
    return z.imag.add("atan2", z.real)


def _exponential(z: Pair) -> Pair:
    size = z.real.add("exponential")
    is_real = z.imag.compare("EQ", 0.0)
    vanishes = z.real.compare("EQ", -inf)
    real = is_real.select(size, size * z.imag.add("cosine"))
    imag = is_real.select(z.imag, size * z.imag.add("sine"))
    return Pair(vanishes.select(0.0, real), vanishes.select(0.0, imag))


def _exponential_minus_one(z: Pair) -> Pair:
    half_sine = (z.imag * 0.5).add("sine")
    grown = z.real.add("exponential-minus-one")
    real = grown * z.imag.add("cosine") - half_sine * half_sine * 2.0
    is_real = z.imag.compare("EQ", 0.0)
    imag = is_real.select(z.imag, (grown + 1.0) * z.imag.add("sine"))
    return Pair(is_real.select(grown, real), imag)


def _log_of_modulus(z: Pair) -> RealArray:
    x, y = abs(z.real), abs(z.imag)
    larger, smaller = x.add("maximum", y), x.add("minimum", y)
    ratio = larger.compare("EQ", 0.0).select(0.0, smaller / larger)
    length = larger.add("log") + (ratio * ratio).add("log-plus-one") * 0.5
    return (z.real.is_infinite() | z.imag.is_infinite()).select(inf, length)


def _logarithm(z: Pair) -> Pair:
    return Pair(_log_of_modulus(z), _argument(z))


def _log_plus_one(z: Pair) -> Pair:
    """log |1 + z|: near zero from |1 + z|^2 - 1 = x (2 + x) + y^2, which keeps small digits."""
    shifted = Pair(z.real + 1.0, z.imag)
    excess = z.real * (z.real + 2.0) + z.imag * z.imag
    is_small = (abs(z.real) + abs(z.imag)).compare("LT", 0.5)
    near = excess.add("log-plus-one") * 0.5
    return Pair(is_small.select(near, _log_of_modulus(shifted)), _argument(shifted))


def _square_root(z: Pair) -> Pair:
    """t = sqrt((|z| + |x|) / 2) is one part of the root, y / 2t the other."""
    t = (modulus(z) * 0.5 + abs(z.real) * 0.5).add("sqrt")
    ratio = t.compare("EQ", 0.0).select(0.0, z.imag / (t + t))
    is_right = z.real.compare("GE", 0.0)
    real = is_right.select(t, abs(ratio))
    imag = is_right.select(ratio, _with_sign(t, z.imag))
    is_infinite = z.imag.is_infinite()
    is_zero = t.compare("EQ", 0.0)
    imag = is_infinite.select(z.imag, is_zero.select(z.imag, imag))
    return Pair(is_infinite.select(inf, real), imag)


def _reciprocal_root(z: Pair) -> Pair:
    root = _square_root(z)
    return _quotient(Pair(root.real.filled(1.0), root.real.filled(0.0)), root)


def _cube_root(z: Pair) -> Pair:
    size, angle = modulus(z).add("cbrt"), _argument(z) * (1 / 3)
    return Pair(size * angle.add("cosine"), size * angle.add("sine"))


def _power(z: Pair, w: Pair) -> Pair:
    """exp(w log z); 0 ** w is 1 for w = 0, 0 for a positive w, and otherwise NaN."""
    log, angle = _log_of_modulus(z), _argument(z)
    is_real = w.imag.compare("EQ", 0.0)  # zero times an infinite logarithm is not a number
    size = is_real.select(w.real * log, w.real * log - w.imag * angle).add("exponential")
    phase = is_real.select(w.real * angle, w.real * angle + w.imag * log)
    real = size * phase.add("cosine")
    imag = phase.compare("EQ", 0.0).select(phase, size * phase.add("sine"))
    is_zero = z.real.compare("EQ", 0.0) & z.imag.compare("EQ", 0.0)
    is_one = w.real.compare("EQ", 0.0) & w.imag.compare("EQ", 0.0)
    is_positive = w.real.compare("GT", 0.0) & w.imag.compare("EQ", 0.0)
    at_zero = is_positive.select(w.real.filled(0.0), nan)
    return Pair(
        is_one.select(1.0, is_zero.select(at_zero, real)),
        is_one.select(0.0, is_zero.select(at_zero, imag)),
    )


def _sign(z: Pair) -> Pair:
    length = modulus(z)
    is_zero = length.compare("EQ", 0.0)
    return Pair(
        is_zero.select(z.real, z.real / length),
        is_zero.select(z.imag, z.imag / length),
    )


def _hyperbolic_tangent(z: Pair) -> Pair:
    """(h (1 + t^2), t (1 - h^2)) / (1 + h^2 t^2), with h = tanh x, t = tan y.

    1 - h^2 is 1 / cosh(x)^2, which keeps its digits where h is close to 1.
    """
    h, t = z.real.add("tanh"), z.imag.add("tan")
    grown = abs(z.real).add("exponential")
    inverse_cosh = grown.filled(2.0) / (grown + grown.filled(1.0) / grown)
    divisor = h * h * t * t + 1.0
    real, imag = h * (t * t + 1.0) / divisor, t * inverse_cosh * inverse_cosh / divisor
    is_infinite = z.real.is_infinite()
    return Pair(is_infinite.select(h, real), is_infinite.select(0.0, imag))


def _tangent(z: Pair) -> Pair:
    result = _hyperbolic_tangent(Pair(-z.imag, z.real))
    return Pair(result.imag, -result.real)


def _cosh_sinh(x: RealArray) -> tuple[RealArray, RealArray]:
    """Both from exp(x) - 1, so that sinh keeps its digits near zero."""
    grown = abs(x).add("exponential-minus-one")
    shrunk = grown / (grown + 1.0)
    is_large = grown.is_infinite()
    sinh = is_large.select(inf, (grown + shrunk) * 0.5)
    cosh = is_large.select(inf, (grown - shrunk) * 0.5 + 1.0)
    return cosh, _with_sign(sinh, x)


def _sine(z: Pair) -> Pair:
    cosh, sinh = _cosh_sinh(z.imag)
    return Pair(z.real.add("sine") * cosh, z.real.add("cosine") * sinh)


def _cosine(z: Pair) -> Pair:
    cosh, sinh = _cosh_sinh(z.imag)
    return Pair(z.real.add("cosine") * cosh, -(z.real.add("sine") * sinh))


def _hyperbolic_cosine(z: Pair) -> Pair:
    cosh, sinh = _cosh_sinh(z.real)
    return Pair(z.imag.add("cosine") * cosh, z.imag.add("sine") * sinh)


def _hyperbolic_sine(z: Pair) -> Pair:
    cosh, sinh = _cosh_sinh(z.real)
    return Pair(z.imag.add("cosine") * sinh, z.imag.add("sine") * cosh)


def _logistic(z: Pair) -> Pair:
    decayed = _exponential(_negative(z))
    divisor = Pair(decayed.real + 1.0, decayed.imag)
    return _quotient(Pair(divisor.real.filled(1.0), divisor.real.filled(0.0)), divisor)


def equal(z: Pair, w: Pair) -> RealArray:
    """Return True where both parts are equal."""
    return z.real.compare("EQ", w.real) & z.imag.compare("EQ", w.imag)


def unequal(z: Pair, w: Pair) -> RealArray:
    """Return True where a part differs."""
    return z.real.compare("NE", w.real) | z.imag.compare("NE", w.imag)


UNARY: dict[str, Callable[[Pair], Pair]] = {
    "cbrt": _cube_root,
    "cosh": _hyperbolic_cosine,
    "cosine": _cosine,
    "exponential": _exponential,
    "exponential-minus-one": _exponential_minus_one,
    "log": _logarithm,
    "log-plus-one": _log_plus_one,
    "logistic": _logistic,
    "negate": _negative,
    "rsqrt": _reciprocal_root,
    "sign": _sign,
    "sine": _sine,
    "sinh": _hyperbolic_sine,
    "sqrt": _square_root,
    "tan": _tangent,
    "tanh": _hyperbolic_tangent,
}
"""Opcode -> function of a complex number."""

BINARY: dict[str, Callable[[Pair, Pair], Pair]] = {
    "add": _total,
    "divide": _quotient,
    "multiply": product,
    "power": _power,
    "subtract": _difference,
}
"""Opcode -> function of two complex numbers."""
