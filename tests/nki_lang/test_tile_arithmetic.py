"""Python's operators and NumPy's functions on tiles: refused at the line, with what to write."""

import copy
import math
import operator
import warnings

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang import NkiValidationError
from nki_lang.execute import simulate
from nki_lang.kernel import trace

X = np.arange(32, dtype=np.float32).reshape(4, 8)

OPERATORS = {
    "add": (lambda t, u: t + u, "nl.add", "tensor_tensor"),
    "add number": (lambda t, u: t + 1, "nl.add", "tensor_scalar"),
    "radd": (lambda t, u: 2.0 + t, "nl.add", "reverse0=True"),
    "radd numpy": (lambda t, u: np.float32(2) + t, "nl.add", "tensor_scalar"),
    "array add": (lambda t, u: X + t, "nl.add", "tensor_scalar"),
    "iadd": (lambda t, u: operator.iadd(t, u), "nl.add", "tensor_tensor"),
    "sub": (lambda t, u: t - u, "nl.subtract", "tensor_tensor"),
    "mul": (lambda t, u: t * u, "nl.multiply", "tensor_tensor"),
    "truediv": (lambda t, u: t / 2, "nl.divide", "tensor_scalar"),
    "floordiv": (lambda t, u: t // 2, "nisa.tensor_tensor", ""),
    "mod": (lambda t, u: t % 2, "nl.mod", "tensor_scalar"),
    "divmod": (lambda t, u: divmod(t, u), "nki.isa", ""),
    "pow": (lambda t, u: t**2, "nl.power", "tensor_scalar"),
    "matmul": (lambda t, u: t @ u, "nl.matmul", "nisa.nc_matmul"),
    "and": (lambda t, u: t & u, "nl.bitwise_and", "tensor_tensor"),
    "or": (lambda t, u: t | 1, "nl.bitwise_or", "tensor_scalar"),
    "xor": (lambda t, u: t ^ u, "nl.bitwise_xor", "tensor_tensor"),
    "lshift": (lambda t, u: t << 1, "nl.left_shift", "tensor_scalar"),
    "rshift": (lambda t, u: t >> 1, "nl.right_shift", "tensor_scalar"),
    "lt": (lambda t, u: t < u, "nl.less", "tensor_tensor"),
    "le": (lambda t, u: t <= 1, "nl.less_equal", "tensor_scalar"),
    "gt": (lambda t, u: 1 < t <= 2, "nl.greater", "tensor_scalar"),
    "ge": (lambda t, u: t >= u, "nl.greater_equal", "tensor_tensor"),
    "eq": (lambda t, u: t == u, "nl.equal", "`is`"),
    "eq number": (lambda t, u: t == 0, "nl.equal", "tensor_scalar"),
    "eq array": (lambda t, u: t == X, "nl.equal", ""),
    "ne": (lambda t, u: t != 0.5, "nl.not_equal", "tensor_scalar"),
    "neg": (lambda t, u: -t, "nl.negative", "nisa.activation"),
    "pos": (lambda t, u: +t, "nl.copy", ""),
    "abs": (lambda t, u: abs(t), "nl.abs", ""),
    "invert": (lambda t, u: ~t, "nl.invert", ""),
    "round": (lambda t, u: round(t), "nki.isa", ""),
    "floor": (lambda t, u: math.floor(t), "nl.floor", ""),
    "np.add": (lambda t, u: np.add(t, u), "nl.add", "tensor_tensor"),
    "np.exp": (lambda t, u: np.exp(t), "nl.exp", ""),
    "np.absolute": (lambda t, u: np.abs(t), "nl.abs", ""),
    "np.sum": (lambda t, u: np.sum(t), "nl.sum", ""),
    "np.where": (lambda t, u: np.where(t, u, u), "nl.where", ""),
    "np.add.reduce": (lambda t, u: np.add.reduce(t), "nisa.tensor_reduce", ""),
    "np.concatenate": (lambda t, u: np.concatenate([t, u]), "nki.isa", ""),
}

VALUES = {
    "if": lambda t, u: 1 if t[0:1, 0:1] else 0,
    "not": lambda t, u: not t[0:1],
    "float": lambda t, u: float(t[0:1, 0:1]),
    "int": lambda t, u: int(t[0:1, 0:1]),
    "index": lambda t, u: range(t[0:1, 0:1]),
    "complex": lambda t, u: complex(t[0:1, 0:1]),
    "math.exp": lambda t, u: math.exp(t[0:1, 0:1]),
}

WALKS = {
    "iter": lambda t, u: list(t),
    "unpack": lambda t, u: [*t],
    "sum": lambda t, u: sum(t),
    "reversed": lambda t, u: reversed(t),
    "in": lambda t, u: 1 in t,
    "del": lambda t, u: operator.delitem(t, 0),
}


def kernel_of(function):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t, u = nl.load(x), nl.load(x)
        function(t, u)
        nl.store(out, t)
        return out

    return kernel


def refusal(function, run):
    with pytest.raises(TypeError) as caught:
        run(kernel_of(function))
    error = caught.value
    assert isinstance(error, NkiValidationError)
    location = error.location
    assert location.file == __file__
    assert location.line == function.__code__.co_firstlineno
    return error


@pytest.mark.parametrize("run", [lambda k: trace(k, (X,)), lambda k: simulate(k)(X)])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_name_what_to_write(name, run):
    function, *expected = OPERATORS[name]
    error = refusal(function, run)
    assert error.code == "NKI-ARITHMETIC"
    assert all(piece in error.remedy for piece in expected), error.remedy


@pytest.mark.parametrize("run", [lambda k: trace(k, (X,)), lambda k: simulate(k)(X)])
@pytest.mark.parametrize("name", WALKS)
def test_tiles_are_not_walked(name, run):
    assert refusal(WALKS[name], run).code == "NKI-TENSOR-VALUE"


@pytest.mark.parametrize("name", [*VALUES, "np.asarray"])
def test_contents_are_unknown_while_tracing(name):
    function = VALUES.get(name) or (lambda t, u: np.asarray(t))
    assert refusal(function, lambda k: trace(k, (X,))).code == "NKI-TENSOR-VALUE"


@pytest.mark.parametrize("name", [name for name in VALUES if name != "index"])
def test_the_simulator_shows_contents_and_says_that_only_it_can(name):
    with pytest.warns(UserWarning, match="NKI-TENSOR-VALUE") as caught:
        simulate(kernel_of(VALUES[name]))(X)
    assert caught[0].filename == __file__


def test_looking_at_contents_in_the_simulator_is_no_offence():
    looked_at = []

    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        assert nl.equal(t, t)
        looked_at.append(np.asarray(t))
        nl.store(out, t)
        return out

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(kernel)(X)
    assert np.array_equal(looked_at[0], X)


@pytest.mark.parametrize("run", [lambda k, *a: trace(k, a), lambda k, *a: simulate(k)(*a)])
def test_a_whole_tensor_is_true_so_that_conditions_ask_for_its_presence(run):
    presence = []

    def kernel(x, mask=None):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = None if mask is None else nl.load(mask)
        presence.append(("masked" if mask else "plain", "tile" if tile else "none"))
        nl.store(out, nl.load(x))
        return out

    run(kernel, X)
    with pytest.warns(UserWarning, match="is true as a condition") as caught:
        run(kernel, X, np.zeros_like(X))
    assert caught[0].filename == __file__
    assert presence == [("plain", "none"), ("masked", "tile")]


def test_contents_of_a_tile_of_one_element_are_no_condition():
    error = refusal(lambda t, u: 1 if nl.max(t, axis=1) else 0, lambda k: trace(k, (X[:1],)))
    assert error.code == "NKI-TENSOR-VALUE"


def test_an_element_of_a_tensor_in_hbm_is_no_condition():
    def kernel(x):
        if x[0]:
            return x
        return x

    with pytest.raises(NkiValidationError) as caught:
        trace(kernel, (X,))
    assert caught.value.code == "NKI-TENSOR-VALUE"


def test_a_number_comes_from_one_element():
    error = refusal(lambda t, u: float(t), lambda k: trace(k, (X,)))
    assert error.code == "NKI-TENSOR-VALUE"
    with pytest.warns(UserWarning), pytest.raises(TypeError, match="32 elements"):
        simulate(kernel_of(lambda t, u: float(t)))(X)


def test_identity_of_tiles_still_works():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t, u = nl.load(x), nl.load(x)
        assert t == t and (t != t) is False
        assert t != None and (t == None) is False  # noqa: E711  (kernels write it so)
        assert t in [u, t][1:] and {t: 1}[t] == 1 and len(t) == 4
        assert t.buffer == nl.sbuf and t != "name" and copy.copy(t).shape == t.shape
        assert not hasattr(t, "nothing_of_that_name")
        nl.store(out, t)
        return out

    trace(kernel, (X,))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("T", "nl.transpose"), ("astype", "nl.copy"), ("sum", "nl.sum"), ("exp", "nl.exp"),
     ("item", "register_load"), ("unsqueeze", "expand_dim"), ("nonsense", "help(")],
)  # fmt: skip
def test_methods_of_arrays_are_told(name, remedy):
    with pytest.raises(AttributeError) as caught:
        trace(kernel_of(lambda t, u: getattr(t, name)), (X,))
    error = caught.value
    assert error.code == "NKI-ATTRIBUTE" and remedy in error.remedy
    assert error.location.file == __file__


@pytest.mark.parametrize(
    "function",
    [lambda r: r + 1.5, lambda r: r / 2, lambda r: r**2, lambda r: -r, lambda r: r < 0.5,
     lambda r: ~r, lambda r: abs(r), lambda r: int(r), lambda r: range(r), lambda r: 1.5 * r],
)  # fmt: skip
def test_registers_are_integers_of_the_device(function):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        function(nisa.register_alloc(3))
        nl.store(out, nl.load(x))
        return out

    with pytest.raises(TypeError) as caught:
        trace(kernel, (X,))
    assert caught.value.code.startswith("NKI-REGISTER")
    assert caught.value.location.line == function.__code__.co_firstlineno or (
        caught.value.location.file == __file__
    )


def test_an_if_on_a_register_is_told_by_the_simulator_too():
    def kernel(x, loops):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        register = nisa.register_alloc(2)
        while register:
            nisa.register_move(register, register - 1)
        if loops and register:
            nisa.register_move(register, 0)
        nl.store(out, nl.load(x))
        return out

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)
        simulate(kernel)(X, False)
    with pytest.warns(UserWarning, match="NKI-REGISTER-VALUE") as caught:
        simulate(kernel)(X, True)
    (message,) = (entry for entry in caught if entry.category is UserWarning)
    assert message.lineno == kernel.__code__.co_firstlineno + 5
    with pytest.raises(TypeError, match="while register"):
        trace(kernel, (X, True))
