"""Tracing whole kernels: arguments, names, results, cores, and calling them."""

from __future__ import annotations

import dataclasses
import re
import threading
import warnings

import numpy as np
import pytest

import nki_lang
import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiValidationError
from nki_lang.kernel import register_framework
from tests.nki_lang.specimen import ops, refused, spec, trace

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def plus(x, amount=1.0):
    result = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.add, amount)
    nl.store(result, tile)
    return result


def in_place(x, y):
    """Doubles x in place, returns y plus one."""
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nl.store(x, tile)
    return plus(y)


# -- what a trace holds ---------------------------------------------------------------------


def test_names_come_from_arguments_and_variables():
    traced = trace(plus, spec(8, 4))
    assert traced.name == "plus" and [t.name for t in traced.inputs] == ["x"]
    assert traced.outputs[0].name == "result.1"
    names = [i.operands["dst"].tensor.name for i in traced.instructions()]
    assert names == ["tile.2", "tile.2", "result.1"]
    assert traced.target == "trn2" and traced.lnc == 1 and traced.grid == ()


def test_instructions_hold_every_parameter_and_the_line():
    traced = trace(plus, spec(8, 4))
    instruction = list(traced.instructions())[1]
    assert instruction.operands == {
        "dst": instruction.operands["dst"], "data": instruction.operands["data"], "op0": "add",
        "operand0": 1.0, "reverse0": False, "op1": None, "operand1": None, "reverse1": False,
    }  # fmt: skip
    assert instruction.location.function == "plus"
    assert instruction.location.line == plus.__code__.co_firstlineno + 3


def test_user_names_are_kept_and_made_unique():
    def kernel(x):
        a = nl.ndarray(x.shape, x.dtype, name="weights")
        b = nl.ndarray(x.shape, x.dtype, name="weights")
        nisa.memset(a, 0, name="clear")
        nisa.memset(b, 0, name="clear")
        return x

    traced = trace(kernel, spec(8, 4))
    assert [i.operands["dst"].tensor.name for i in traced.instructions()] == [
        "weights", "weights.1",
    ]  # fmt: skip
    assert [i.name for i in traced.instructions()] == ["clear", "clear.1"]


@dataclasses.dataclass
class Config(nl.NKIObject):
    scale: float
    bias: object = None


def test_tensors_are_found_inside_tuples_dicts_and_objects():
    def kernel(pair, table, config, flag=True):
        out = nl.ndarray((8, 4), nl.float32, nl.shared_hbm)
        tile = nl.load(pair[0])
        for tensor in (pair[1], table["w"], config.bias):
            nisa.tensor_tensor(tile, tile, nl.load(tensor), nl.add)
        nisa.tensor_scalar(tile, tile, nl.multiply, config.scale)
        nl.store(out, tile)
        return out

    config = Config(2.0, X)
    traced = trace(kernel, (X, X), {"w": X}, config)
    assert [t.name for t in traced.inputs] == ["pair_0", "pair_1", "table_w", "config_bias"]
    assert config.bias is X, "the caller's object is left alone"
    assert np.array_equal(nki_lang.jit(kernel)((X, X), {"w": X}, config), 8 * X)


def test_in_place_writes_alias_inputs():
    traced = trace(in_place, spec(8, 4), spec(8, 4))
    assert [t.name for t in traced.outputs] == ["result.2", "x"] or traced.outputs[1].name == "x"
    assert traced.aliases == {1: 0} and traced.metadata["returned"] == 1
    assert not traced.returns_tuple
    x, y = X.copy(), X.copy()
    result = nki_lang.jit(in_place)(x, y)
    assert np.array_equal(result, X + 1) and np.array_equal(x, 2 * X) and np.array_equal(y, X)


def test_returning_an_argument_that_was_written():
    def kernel(x):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nl.store(x, tile)
        return (x,)

    traced = trace(kernel, spec(8, 4))
    assert traced.aliases == {0: 0} and traced.returns_tuple
    x = X.copy()
    (result,) = nki_lang.jit(kernel)(x)
    assert result is x and np.array_equal(x, X + 1)


def test_a_kernel_without_results():
    def kernel(x):
        nl.store(x, nl.load(x))

    assert nki_lang.jit(kernel)(X.copy()) is None


def test_private_hbm_results_are_accepted_with_a_warning():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.hbm)
        nl.store(out, nl.load(x))
        return out

    with pytest.warns(UserWarning, match="shared_hbm"):
        assert np.array_equal(nki_lang.jit(kernel)(X), X)


def test_a_reshaped_result_has_one_shape_everywhere():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile = nl.load(x)
        register = nisa.register_alloc(2)
        nl.store(out, tile)
        nisa.dma_copy(out[nl.ds(register, 1), :], tile[0:1, :])
        return out.reshape((4, 8))

    traced = trace(kernel, spec(8, 4))
    assert traced.outputs[0].shape == (4, 8)
    writes = [i.operands["dst"] for i in traced.instructions() if i.op == "dma_copy"][1:]
    assert all(access.tensor == traced.outputs[0] for access in writes)
    assert writes[1].index_step == 4
    expected = X.copy()
    expected[2] = X[0]
    for how in (nki_lang.jit, nki_lang.simulate):
        assert np.array_equal(how(kernel)(X), expected.reshape(4, 8))

    def argument(x):
        return x.reshape((4, 8))

    with refused("NKI-RETURN", "own shape"):
        trace(argument, spec(8, 4))


def test_constants_travel_once():
    def kernel(x):
        out = nl.ndarray((8, 8), nl.float32, nl.shared_hbm)
        a = nl.shared_identity_matrix(8, nl.float32)
        b = nl.shared_identity_matrix(8, nl.float32)
        nisa.tensor_tensor(a, a, b, nl.add)
        nl.store(out, a)
        return out

    traced = trace(kernel, spec(8, 4))
    assert len(traced.constants) == 1
    assert np.array_equal(traced.constants[0].value, np.eye(8))
    assert np.array_equal(nki_lang.jit(kernel)(X), 2 * np.eye(8))


def test_shared_constants_from_arrays_and_files(tmp_path):
    np.save(tmp_path / "table.npy", X)

    def kernel(x, path):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        a, b = nl.load(nl.shared_constant(X)), nl.load(nl.shared_constant(path))
        nisa.tensor_tensor(a, a, b, nl.add)
        nl.store(out, a)
        return out

    assert np.array_equal(nki_lang.jit(kernel)(X, str(tmp_path / "table.npy")), 2 * X)


def test_kernels_called_from_kernels_are_inlined():
    inner = nki_lang.jit(plus)

    @nki_lang.jit
    def outer(x):
        return inner(inner(x), amount=2.0)

    assert np.array_equal(outer(X), X + 3)
    assert ops(outer.ir(X)).count("tensor_scalar") == 2


def test_arguments_are_in_hbm_as_documented_kernels_ask():
    def kernel(x):
        assert x.buffer == nl.hbm and nl.is_hbm(x.buffer)
        return plus(x)

    assert trace(kernel, spec(8, 4)).inputs[0].buffer == nl.shared_hbm


# -- cores ------------------------------------------------------------------------------------


def half_each(x):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    cores, core = nl.num_programs(), nl.program_id(0)
    rows = x.shape[0] // cores
    own_rows = slice(core * rows, (core + 1) * rows)
    tile = nl.load(x[own_rows, :])
    nisa.tensor_scalar(tile, tile, nl.add, float(core))
    nl.store(out[own_rows, :], tile)
    return out


def test_one_trace_a_core():
    traced = trace(half_each, spec(8, 4), grid=2)
    assert traced.lnc == 2 and traced.grid == (2,) and len(traced.bodies) == 2
    outputs = {i.operands["dst"].tensor.name for i in traced.instructions() if "out" in i.operands["dst"].tensor.name}  # fmt: skip
    assert outputs == {"out.1"}, "shared HBM is the same tensor on both cores"
    private = [{i.operands["dst"].tensor.name for i in body if isinstance(i, nki_lang.ir.Instruction)} - outputs for body in traced.bodies]  # fmt: skip
    assert not private[0] & private[1], "private tensors have names of their own"


def test_launch_grids():
    kernel = nki_lang.jit(half_each, platform_target="trn2")
    expected = X.copy()
    expected[4:] += 1
    assert np.array_equal(kernel[2](X), expected)
    assert np.array_equal(kernel[1](X), X) and np.array_equal(kernel(X), X)
    assert trace(lambda x: (x, nl.program_ndim() and None)[0], spec(4, 4)).lnc == 1
    with pytest.raises(NkiValidationError, match="NKI-GRID"):
        kernel[3]


def test_cores_that_allocate_differently_are_refused():
    def kernel(x):
        if nl.program_id(0) == 0:
            nl.ndarray((4, 4), x.dtype, nl.shared_hbm)
        return nl.ndarray(x.shape, x.dtype, nl.shared_hbm)

    with refused("NKI-CORES-DIVERGE", "core 1"):
        trace(kernel, spec(8, 4), grid=2)

    def fewer(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        if nl.program_id(0) == 0:
            nl.ndarray((4, 4), x.dtype, nl.shared_hbm)
        return out

    with refused("NKI-CORES-DIVERGE", "never allocates"):
        trace(fewer, spec(8, 4), grid=2)


def test_barrier_is_the_core_barrier_of_all_cores():
    def kernel(x):
        out = half_each(x)
        nisa.barrier()
        return out

    single = trace(kernel, spec(8, 4))
    double = trace(kernel, spec(8, 4), grid=2)
    assert "core_barrier" not in ops(single) and ops(double).count("core_barrier") == 2
    barrier = next(i for i in double.instructions() if i.op == "core_barrier")
    assert barrier.operands["cores"] == (0, 1)


# -- calling ----------------------------------------------------------------------------------


def test_the_forms_of_jit():
    for kernel in (
        nki_lang.jit(plus),
        nki_lang.jit()(plus),
        nki_lang.jit(mode="trace")(plus),
        nki_lang.jit(mode="auto", debug_kernel=True, show_compiler_tb=True)(plus),
        nki_lang.jit(enable_cache=True)(plus),
        nki_lang.jit(platform_target="trn1")(plus),
        nki_lang.jit(nki_lang.jit(plus)),
    ):
        assert np.array_equal(kernel(X), X + 1)
        assert kernel.__name__ == "plus"
    assert nki_lang.jit(platform_target="trn1")(plus).ir(X).target == "trn1"
    with pytest.raises(TypeError, match=r"NKI-JIT.*no_such_option"):
        nki_lang.jit(no_such_option=1)(plus)


def test_the_target_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "inf2")
    assert nki_lang.trace(plus, (X,)).target == "trn1"
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE")
    assert nki_lang.trace(plus, (X,)).target == "trn3"


def test_a_kernel_is_traced_once_for_each_kind_of_call():
    calls = []

    @nki_lang.jit
    def kernel(x, amount=1.0):
        calls.append(x.shape)
        return plus(x, amount)

    for _ in range(3):
        kernel(X)
    kernel(X, amount=2.0)
    for _ in range(3):
        kernel[1](X)
    kernel(X[:4].copy())
    kernel(X.astype(np.float16))
    assert len(calls) == 5


def test_a_changed_closure_is_noticed_and_warned_about():
    amount = 1.0

    @nki_lang.jit
    def kernel(x):
        return plus(x, amount)

    assert np.array_equal(kernel(X), X + 1)
    amount = 5.0
    with pytest.warns(UserWarning, match="amount"):
        assert np.array_equal(kernel(X), X + 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(kernel(X), X + 5)


def test_methods_can_be_kernels():
    class Layer:
        amount = 3.0

        @nki_lang.jit
        def forward(self, x):
            return plus(x, self.amount)

        @staticmethod
        @nki_lang.jit
        def fixed(x):
            return plus(x, 2.0)

    assert np.array_equal(Layer().forward(X), X + 3)
    assert np.array_equal(Layer.fixed(X), X + 2)


def test_frameworks_are_asked_first():
    class Foreign:
        shape, dtype = (4, 4), "float32"

    calls = []
    register_framework(
        "test", lambda value: isinstance(value, Foreign), lambda k, a, kw: calls.append((k, a, kw))
    )
    try:
        kernel = nki_lang.jit(plus)
        foreign = Foreign()
        kernel(foreign, amount=2.0)
        assert calls == [(kernel, (foreign,), {"amount": 2.0})]
        kernel(X)
        assert len(calls) == 1
    finally:
        from nki_lang.kernel import _FRAMEWORK_CALLS

        del _FRAMEWORK_CALLS["test"]


def test_two_threads_trace_independently():
    results = {}

    def work(name, amount):
        results[name] = [nki_lang.jit(plus)(X, amount) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(i, float(i))) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, values in results.items():
        assert all(np.array_equal(value, X + name) for value in values)


def test_the_collector_is_on_again_after_a_trace_that_failed():
    import gc

    def kernel(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trace(kernel, spec(4, 4))
    assert gc.isenabled()


def test_the_environment_can_ask_for_the_simulator(monkeypatch, capsys):
    @nki_lang.jit
    def kernel(x):
        print(nl.load(x))
        return plus(x)

    monkeypatch.setenv("NKI_SIMULATOR", "1")
    assert np.array_equal(kernel(X), X + 1)
    assert "31." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "kwargs", "what"),
    [((), {}, "missing"), ((X, 1, 2, 3), {}, "too many"), ((X,), {"no_such": 1}, "no_such")],
)
@pytest.mark.parametrize("way", [nki_lang.jit, lambda func: nki_lang.simulate(nki_lang.jit(func))])
def test_wrong_arguments_are_a_type_error_with_the_kernels_place(way, args, kwargs, what):
    location = re.escape(f"{plus.__code__.co_filename}:{plus.__code__.co_firstlineno}")
    with pytest.raises(TypeError, match=rf"plus\(.*, defined at {location}: .*{what}") as caught:
        way(plus)(*args, **kwargs)
    assert caught.value.code == "NKI-ARGUMENTS"


def test_a_dtype_that_kernels_do_not_have_is_told_at_the_kernel():
    kernel = nki_lang.jit(plus)
    for run in (kernel, nki_lang.simulate(kernel)):
        with pytest.raises(
            NkiValidationError, match=r"argument 'x' of plus has dtype float64"
        ) as e:
            run(X.astype(np.float64))
        assert e.value.code == "NKI-DTYPE"
        assert e.value.location.line == plus.__code__.co_firstlineno
        assert e.value.location.file == __file__


def test_a_wrong_grid_is_told_where_it_was_asked_for():
    with pytest.raises(NkiValidationError, match="launch grid 0") as e:
        nki_lang.jit(plus)[0]
    assert e.value.location.file == __file__


def test_objects_of_the_language_are_made_from_their_fields():
    class Counter(nl.NKIObject):
        x: int
        y: bool = False

        def __post_init__(self):
            self.z = self.x + 1

    assert (Counter(1).x, Counter(1).y, Counter(1).z, Counter(x=2, y=True).y) == (1, False, 2, True)
    with pytest.raises(TypeError):
        Counter(1, 2, 3)

    @dataclasses.dataclass
    class Plain(nl.NKIObject):
        first = None
        second = 3

    assert Plain(first=4).second == 3

    @dataclasses.dataclass(frozen=True)
    class Frozen(nl.NKIObject):
        a: int = 1

    assert Frozen(2).a == 2

    @dataclasses.dataclass
    class Sizes(nl.NKIObject):
        rows: int
        columns: int
        items: list = dataclasses.field(default_factory=list)

    assert Sizes(rows=3).columns is None, "as the language guide says, Class Support"
    assert Sizes(1, 2) == Sizes(1, 2, [])

    class Bag(nl.NKIObject):
        """No fields: whatever is given by name."""

    assert Bag(a=1, b=2).b == 2


def test_prints_show_values_when_simulated(capsys):
    def kernel(x):
        tile = nl.load(x)
        print(tile)
        return plus(x)

    nki_lang.simulate(kernel)(X)
    assert "31." in capsys.readouterr().out
    nki_lang.jit(kernel)(X)
    assert "NkiTensor(tile" in capsys.readouterr().out


def test_methods_are_traced_once_for_equal_objects():
    traced = []

    class Scale:
        def __init__(self, factor):
            self.factor = factor

        @nki_lang.jit
        def apply(self, x):
            traced.append(self.factor)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            tile = nl.load(x)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=self.factor)
            nl.store(out, tile)
            return out

    class Slotted:
        __slots__ = ("factor",)
        __init__ = Scale.__init__
        apply = Scale.__dict__["apply"]

    x = np.ones((4, 8), np.float32)
    for make in (Scale, Slotted):
        del traced[:]
        doubling, tripling = make(2.0), make(3.0)
        for _ in range(3):
            assert (doubling.apply(x) == 2).all()
            assert (tripling.apply(x) == 3).all()
        assert traced == [2.0, 3.0]
    doubling = Scale(2.0)
    doubling.factor = 5.0
    assert (doubling.apply(x) == 5).all()
    Scale.factor = 7.0
    del doubling.factor
    assert (doubling.apply(x) == 7).all()
    Scale.factor = 8.0
    with pytest.warns(UserWarning, match=r"class .*Scale\.factor changed"):
        assert (doubling.apply(x) == 8).all()


def test_what_a_prompt_shows_is_short():
    def scaled(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0, name="double")
        nl.store(out, tile)
        return out

    kernel = nki_lang.jit(scaled)
    ir = kernel.ir(np.ones((4, 8), np.float32))
    assert repr(ir).startswith("<KernelIR scaled for") and "(x: float32[4, 8]) -> (out" in repr(ir)
    assert "3 instructions" in repr(ir) and len(repr(ir)) < 150
    text = repr(list(ir.instructions())[1])
    assert text.startswith("tensor_scalar(dst=%tile") and "name=double" in text
    total, _, head, *rows = str(kernel.cost(np.ones((4, 8), np.float32))).splitlines()
    assert "(estimated)" in total
    assert head.split()[:4] == ["line", "engine", "opcode", "count"]
    assert sum(" tensor_scalar " in row for row in rows) == 1


@pytest.mark.parametrize(
    "wrong",
    [lambda k: k.with_schedule("abc"), lambda k: k.with_schedule([1]),
     lambda k: k.with_schedule([("a", 3)]), lambda k: k.with_schedule(None),
     lambda k: nki_lang.jit(k.func, foo=3), lambda k: nki_lang.jit(3),
     lambda k: nki_lang.simulate(3)],
)  # fmt: skip
def test_misuse_of_kernels_is_a_type_error_with_a_place(wrong):
    with pytest.raises(TypeError) as caught:
        wrong(nki_lang.jit(lambda x: x))
    error = caught.value
    assert isinstance(error, NkiValidationError)
    assert error.location.file == __file__ and error.remedy
