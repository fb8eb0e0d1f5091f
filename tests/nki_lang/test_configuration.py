"""The configurations of NKI 0.7 and prepared collectives: what is accepted and what is refused."""

import nki
import numpy as np
import pytest
from nki.compiler import AddressRotation, CompileConfig, SpecializationConfig

import nki_lang.collectives as ncc
import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.kernel import jit, simulate, trace
from tests.nki_lang.specimen import refused, tracing


def test_configurations_change_no_numbers():
    config = CompileConfig(address_rotation=AddressRotation.DISABLE, prefetch_auto=True)

    @jit(compile_config=config, specialization_config=SpecializationConfig())
    def doubled(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), 2.0))
        return out

    for x in (np.ones((4, 4), np.float32), np.arange(16, dtype=np.float32).reshape(4, 4)):
        np.testing.assert_array_equal(simulate(doubled)(x), 2 * x)
    assert nki.__version__ == "0.7.0"


REFUSED = {
    "no config": lambda: jit(compile_config={"prefetch_auto": True}),
    "swapped": lambda: jit(specialization_config=CompileConfig()),
    "no switch": lambda: CompileConfig(prefetch_auto=1),
    "no rotation": lambda: CompileConfig(address_rotation="auto"),
    "no default": lambda: CompileConfig(nki_alloc_fallback=None),
    "nested": lambda: SpecializationConfig(allow_nested_config_override="yes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_configurations_are_refused(case):
    with refused("NKI-JIT"):
        REFUSED[case]()


def test_groups_of_a_partition():
    """The documented examples for eight ranks."""
    groups = {
        (ncc.rg_partition_op.bitwise_and, 0): [[0, 1, 2, 3, 4, 5, 6, 7]],
        (ncc.rg_partition_op.div, 4): [[0, 1, 2, 3], [4, 5, 6, 7]],
        (ncc.rg_partition_op.mod, 4): [[0, 4], [1, 5], [2, 6], [3, 7]],
    }
    for (op, operand), lists in groups.items():
        assert ncc.ReplicaGroup.from_partition_op(8, op, operand) == ncc.ReplicaGroup(lists)
    for arguments in (
        (8, "div", 4),
        (0, ncc.rg_partition_op.div, 4),
        (8, ncc.rg_partition_op.mod, 0),
    ):
        with refused("NKI-REPLICA-GROUP"):
            ncc.ReplicaGroup.from_partition_op(*arguments)


def operands():
    tensor = nl.ndarray((8,), nl.float32, buffer=nl.hbm)
    metadata = nl.ndarray((3, 1), nl.uint32, buffer=nl.hbm)
    return [tensor], [tensor], ncc.ReplicaGroup([[0]]), metadata


def test_each_prepared_collective_has_one_trigger():
    with tracing():
        first = ncc.all_to_all_v_prepare(*operands())
        with refused("NKI-COLLECTIVE", "one slot"):
            ncc.all_gather_v_prepare(*operands())
        with refused("NKI-COLLECTIVE", "all_gather_v_prepare"):
            ncc.all_gather_v_trigger(first)
        last = ncc.all_to_all_v_trigger(first)
        with refused("NKI-COLLECTIVE", "triggered before"):
            ncc.all_to_all_v_trigger(first)
        assert nisa.tensor_copy(
            nl.zeros((1, 1), nl.float32), nl.zeros((1, 1), nl.float32)
        ).depends_on(last)
        with refused("NKI-COLLECTIVE", "metadata"):
            ncc.all_to_all_v_prepare(*operands()[:3], nl.ndarray((1, 1), nl.uint32, buffer=nl.hbm))


def test_a_trigger_is_in_the_loop_of_its_prepare():
    with tracing():
        prepared = ncc.all_to_all_v_prepare(*operands())
        with refused("NKI-COLLECTIVE", "another loop"):
            nl.fori_loop(0, 2, lambda i: ncc.all_to_all_v_trigger(prepared))


def test_a_prepared_collective_must_be_triggered():
    def kernel(x):
        ncc.all_gather_v_prepare(*operands())
        return x

    with pytest.raises(nisa.NkiValidationError, match="never triggered"):
        trace(kernel, (np.ones((4, 4), np.float32),))


def test_exchanges_reduce_with_three_operators():
    with tracing(lnc=2):
        tile = nl.ndarray((4, 4), nl.float32)
        with refused("NKI-OPERATOR", "nl.maximum"):
            nisa.sendrecv_compute(tile, tile, 1, 1, nl.multiply)


def test_activations_name_their_engine():
    with tracing():
        tile = nl.ndarray((4, 4), nl.float32)
        nisa.activation(tile, nl.exp, tile, engine=nisa.engine.scalar)
        with refused("NKI-ENGINE"):
            nisa.activation(tile, nl.exp, tile, engine=nisa.engine.vector)
