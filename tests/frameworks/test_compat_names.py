"""The names that people's scripts and kernels import."""

from __future__ import annotations

import importlib
import subprocess
import sys
import typing
from collections.abc import Callable

import nki
import nki.dtype
import nki.language as nl
import numpy as np
import pytest

from nki_lang.base.dtypes import BY_NAME, DType
from tests.frameworks import sample_kernels

MODULES = {
    "nki": ("FrameworkKernel", "jit", "simulate", "language", "isa", "collectives", "dtype"),
    "nki.language": ("ndarray", "sbuf", "tile_size", "NKIObject", "NkiTensor", "bfloat16"),
    "nki.isa": ("dma_copy", "nc_matmul", "engine", "oob_mode", "get_nc_version"),
    "nki.isa.constants": ("oob_mode", "dge_mode", "matmul_perf_mode", "engine", "nc_version"),
    "nki.collectives": ("ReplicaGroup", "all_reduce", "rank_id"),
    "nki.typing": ("tensor", "mutable_tensor"),
    "nki.dtype": ("float32", "float8_e4m3", "bfloat16"),
    "nki.compiler.kernel_builder": ("compile_kernel",),
    "nki.compiler.ncc_driver": ("CompileOptions", "CompiledKernel"),
    "neuronxcc.nki": ("benchmark", "profile", "jit", "trace", "baremetal", "simulate_kernel"),
    "neuronxcc.nki.typing": ("tensor", "mutable_tensor", "scalar"),
    "neuronxcc.nki.language": ("bfloat16", "float32", "arange", "mgrid", "par_dim", "load"),
    "neuronxcc.nki.isa": ("nc_matmul", "activation", "affine_select", "engine"),
    "neuronxcc.nki.compiler": ("sbuf", "psum", "no_reorder"),
    "neuronxcc.starfish.support.dtype": ("static_cast", "bfloat16"),
    "neuron_dtypes": (
        "static_cast",
        "sizeinbytes",
        "finfo",
        "is_float_type",
        "bfloat16",
        "float8_e4m3fn_x4",
        "float8_e5m2_x4",
        "float4_e2m1fn_x4",
    ),
    "nki_cpu_simulator": ("nki",),
    "nki_cpu_simulator.nki": ("cpu_simulate", "jit"),
    "nki_cpu_simulator.nki.builtin": (),
    "nki_cpu_simulator.nki.compiler": (),
    "nki_cpu_simulator.nki.isa": ("dma_copy",),
    "nki_cpu_simulator.nki.isa.constants": ("oob_mode",),
    "nki_cpu_simulator.nki.language": ("ndarray",),
    "nki_cpu_simulator.nki.language.dtypes": ("float32",),
    "nki_cpu_simulator.nki.tensor": ("NkiTensor",),
    "nki_cpu_simulator.nki.typing": ("tensor",),
}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_its_names(module: str) -> None:
    loaded = importlib.import_module(module)
    for name in MODULES[module]:
        assert hasattr(loaded, name), name


@pytest.mark.jax
def test_the_jax_kind() -> None:
    assert importlib.import_module("nki._jax").JaxKernel.__mro__[1] is nki.FrameworkKernel


@pytest.mark.torch_xla
def test_the_torch_kinds_and_torch_neuronx() -> None:
    assert importlib.import_module("nki._torch").TorchKernel.__mro__[1] is nki.FrameworkKernel
    torch_neuronx = importlib.import_module("torch_neuronx")
    assert torch_neuronx.nki.jit is nki.jit
    assert callable(torch_neuronx.nki_op)


def test_importing_nki_imports_no_framework(run_script: Callable[..., typing.Any]) -> None:
    done = run_script(
        "import sys, nki, nki.language, nki.isa, nki.collectives\n"
        "print([name for name in ('jax', 'torch', 'torch_xla') if name in sys.modules])\n"
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_dtype_is_a_module_and_an_annotation() -> None:
    assert nki.dtype is sys.modules["nki.dtype"]
    assert typing.Optional[nki.dtype]  # type: ignore[valid-type]  # noqa: UP045
    assert list[nki.dtype]  # type: ignore[valid-type]
    assert nki.dtype | None
    assert isinstance(nl.float32, nki.dtype)  # type: ignore[arg-type]
    assert nki.dtype("bfloat16") == nl.bfloat16  # type: ignore[operator]
    assert np.zeros(2, dtype=nki.dtype.float8_e4m3).itemsize == 1


def test_language_dtypes_are_one_set() -> None:
    import neuron_dtypes
    from neuronxcc.nki import language as old

    for name, kind in BY_NAME.items():
        assert getattr(nki.dtype, name) is kind
        assert getattr(neuron_dtypes, name) is kind
        assert getattr(old, name) is kind
        assert isinstance(getattr(nl, name, kind), DType)


@pytest.mark.parametrize(
    "statement",
    [
        "import neuronxcc.nki.profiler",
        "from neuronxcc.nki.kernels.attention import flash_fwd",
    ],
)
def test_closed_modules_of_beta_1_say_where_their_kernels_are(statement: str) -> None:
    with pytest.raises(ImportError, match="NKI-OLD-NAMESPACE") as caught:
        exec(statement, {})
    assert "nki-samples" in str(caught.value)
    assert not hasattr(importlib.import_module("neuronxcc.nki"), "__wrapped__")


def test_the_simulators_calling_form(monkeypatch: pytest.MonkeyPatch) -> None:
    from nki_cpu_simulator import nki as simulator

    monkeypatch.setenv("NKI_NC_VERSION", "gen2")
    ones = np.ones((128, 512), np.float32)
    result = simulator.cpu_simulate(sample_kernels.add)[1](a_input=ones, b_input=ones)
    np.testing.assert_array_equal(result, 2 * ones)


class TestCasts:
    def test_values(self) -> None:
        from neuron_dtypes import static_cast

        cast = static_cast(np.array([1.0, 257.0]), nl.bfloat16)
        assert cast.dtype == nl.bfloat16.dtype
        assert cast.astype(np.float32).tolist() == [1, 256]
        assert static_cast([1, 2], np.float64).dtype == np.float64

    def test_packing(self) -> None:
        from neuron_dtypes import float4_e2m1fn_x4, float8_e4m3fn_x4, static_cast

        packed = static_cast(np.array([[1.0, 2.0, 0.5, -1.0]]), float8_e4m3fn_x4)
        assert packed.shape == (1, 1) and packed.dtype == np.uint32
        assert packed.view(nl.float8_e4m3fn.dtype).astype(float).tolist() == [[1, 2, 0.5, -1]]
        small = static_cast(np.array([0.5, 1.0, 1.5, 2.0]), float4_e2m1fn_x4)
        assert small.tolist() == [0x4321]
        assert static_cast(packed, float8_e4m3fn_x4) is packed
        with pytest.raises(ValueError, match="packs 4 neighbours"):
            static_cast(np.zeros(3), float8_e4m3fn_x4)
        with pytest.raises(TypeError):
            static_cast(np.zeros(3), "no dtype")

    def test_facts(self) -> None:
        from neuron_dtypes import finfo, float8_e4m3fn_x4, is_float_type, sizeinbytes

        assert [sizeinbytes(kind) for kind in (nl.bfloat16, np.float64, "int8")] == [2, 8, 1]
        assert sizeinbytes(float8_e4m3fn_x4) == 4
        assert is_float_type(nl.float8_e5m2) and is_float_type(np.float64)
        assert not is_float_type(nl.int32)
        assert float(finfo(nl.float8_e4m3fn).max) == 448 == float(finfo(float8_e4m3fn_x4).max)


def test_frontends_trace(python_environment: dict[str, str]) -> None:
    code = """
import sys
import numpy as np, nki
import nki.language as nl, nki.isa as nisa
import nki_cpu_simulator.nki.compiler as simulated
sys.modules["nki.compiler"] = simulated
sys.modules.pop("nki.compiler.frontend")
from nki.compiler.frontend import NKIFrontend, ParserFrontend, TracerFrontend

def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    return out

for frontend in (ParserFrontend(), TracerFrontend()):
    assert isinstance(frontend, NKIFrontend)
    ir = frontend.compile(kernel, inputs={"a": np.ones((4, 8), np.float32)}, target="trn2", lnc=2, dump=True)
    assert len(ir.bodies) == 2 and ir.target == "trn2"
"""
    subprocess.run([sys.executable, "-c", code], env=python_environment, check=True)


def test_the_short_name_of_the_language() -> None:
    """``nki.lang``, as the vendor's announcement calls it."""
    import nki.lang

    assert nki.lang.ndarray is nl.ndarray and nki.lang.__all__ == nl.__all__
