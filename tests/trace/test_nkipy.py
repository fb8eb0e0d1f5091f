"""Seed 003's nkipy flow through the import names that scripts use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hlo_tools
from hlo_tools import HloUnsupportedError
from tests.trace.running import run_proto


def test_the_flow_of_the_page(tmp_path: Path) -> None:
    from nkipy.core.trace import NKIPyKernel
    from nkipy.third_party.xla.service import hlo_pb2

    def matmul(A, B):
        return A.T @ B

    a = ((np.random.default_rng(0).random((64, 32)) - 0.5) * 2).astype(np.float32)
    b = ((np.random.default_rng(1).random((64, 48)) - 0.5) * 2).astype(np.float32)
    kernel = NKIPyKernel.trace(matmul)
    kernel.specialize(a, b)
    proto = kernel._code.to_proto()
    assert isinstance(proto, hlo_pb2.HloModuleProto)
    path = tmp_path / "nkipy_matmul.pb"
    path.write_bytes(proto.SerializeToString())
    module = hlo_tools.load(path)
    assert module.name == "matmul" and module.entry.name == "main"
    names = [p.frontend_attributes["neff_input_names"] for p in module.entry.parameters]
    assert names == ["A", "B"]
    assert module.entry.root.frontend_attributes["neff_output_names"] == "output0"
    assert [i.opcode for i in module.entry] == [
        "parameter",
        "parameter",
        "transpose",
        "dot",
        "copy",
    ]


@pytest.mark.jax
def test_two_results_run_in_jaxlib() -> None:
    from nkipy.core.trace import NKIPyKernel

    @NKIPyKernel.trace(backend="hlo")
    def both(a, b):
        return a + b, a * b

    a, b = np.arange(6, dtype="f4"), np.ones(6, "f4")
    both.specialize(a, b)
    proto = both._code.to_proto()
    root = proto.computations[-1].instructions[-1]
    assert root.frontend_attributes.map["neff_output_names"] == "output0,output1"
    actual = run_proto(proto.SerializeToString(), [a, b])
    np.testing.assert_array_equal(actual[0], a + b)
    np.testing.assert_array_equal(actual[1], a * b)


def test_protos_are_the_same_every_time() -> None:
    from nkipy.core.trace import NKIPyKernel

    kernel = NKIPyKernel.trace(lambda a: np.exp(a).sum(0) + 1)
    a = np.ones((2, 3), "f4")
    first = kernel.specialize(a).to_proto().SerializeToString(deterministic=True)
    assert kernel.specialize(a).to_proto().SerializeToString(deterministic=True) == first


def test_enum_values_and_other_backends() -> None:
    from nkipy.core.trace import NKIPyKernel
    from nkipy.third_party.xla import xla_data_pb2

    assert xla_data_pb2.F32 == 11 and xla_data_pb2.ShapeProto().dimensions == []
    with pytest.warns(UserWarning, match="needs no specialisation"):
        NKIPyKernel.trace(len, backend="cpu").specialize(1)
    with pytest.raises(HloUnsupportedError, match="'nkigen' is not supported"):
        NKIPyKernel.trace(len, backend="nkigen")
    assert repr(NKIPyKernel.trace(len)) == "<NKIPyKernel 'len' backend='hlo'>"


@pytest.mark.jax
def test_parameters_with_the_names_of_instructions() -> None:
    from hlo_tools.trace import trace

    def function(result, main, add_f32, output0):
        result[0] = 1
        return np.sum(result) + main + add_f32 + output0

    x = np.ones(2, "f4")
    traced = trace(function, x, x, x, x)
    names = [view.name for view in traced.to_module().instructions]
    assert len(set(names)) == len(names)
    actual = run_proto(traced.to_proto().SerializeToString(), [x, x, x, x])
    np.testing.assert_array_equal(actual[0], [5, 5])


def test_a_function_without_results() -> None:
    from hlo_tools.trace import trace

    module = trace(lambda a: None, np.ones(2, "f4")).to_module()
    assert module.entry.root.opcode == "tuple" and str(module.entry.root.shape) == "()"


def test_arguments_by_name_and_variable_ones() -> None:
    from hlo_tools.trace import trace

    def function(a, *arrays, scale=2, **more):
        return a * scale + arrays[0] + arrays[1] + more["c"]

    x = np.ones(2, "f4")
    traced = trace(function, x, x, x, c=x)
    assert [t.name for t in traced.inputs] == ["a", "arrays", "arrays_1", "c"]
    with pytest.raises(TypeError, match="missing a required argument"):
        trace(lambda a, b: a, x)


def test_the_sum_of_one_zero_is_positive() -> None:
    """A sum begins with 0.0, to which -0.0 adds nothing."""
    from nkipy.runtime import baremetal_jit

    x = np.array([[-0.0, -0.0, 1.0]], np.float32)

    def sums(a):
        return np.sum(a, 0), np.sum(a[0, 0]), np.sum(np.abs(a), 0), np.max(a, 0)

    for actual, expected in zip(baremetal_jit(sums)(x), sums(x), strict=True):
        assert np.signbit(actual).tolist() == np.signbit(expected).tolist()
