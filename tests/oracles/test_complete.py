"""Every public function that makes numbers is compared with an independent formulation."""

import inspect

import nki_lang.collectives as ncc
import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.frontend.operators import Operator
from tests.oracles import language, meeting
from tests.oracles.test_instructions import CASES
from tests.oracles.test_language import CALLS

NO_NUMBERS = {
    "nki.isa": {"get_nc_version", "get_nc_sub_version", "barrier"},  # barrier is core_barrier
    "nki.language": {"device_print", "is_hbm", "is_on_chip", "is_psum", "is_sbuf", "num_programs",
                     "program_id", "program_ndim"},
}  # fmt: skip
ONLY_OPERATORS = {"average": "tensor_partition_reduce", "bypass": "activate2", "prelu": "activate2"}
"""Values for op= without a function; the instruction whose cases use them."""


def functions(module):
    """Public functions of a module; operators of the language are functions, too."""
    return {
        name
        for name in module.__all__
        if inspect.isfunction(getattr(module, name)) or isinstance(getattr(module, name), Operator)
    }


def test_every_instruction_has_cases():
    tested = {case.op for case in CASES} | {check.__name__ for check in meeting.INSTRUCTIONS}
    assert tested == functions(nisa) - NO_NUMBERS["nki.isa"]


def test_every_function_of_the_language_has_calls():
    tested = {call.name for call in CALLS} | set(ONLY_OPERATORS)
    assert tested == functions(nl) - NO_NUMBERS["nki.language"]
    used = {(case.op, value.name) for case in CASES for value in case.options.values()
            if isinstance(value, Operator)}  # fmt: skip
    for name, op in ONLY_OPERATORS.items():
        assert (op, name) in used


def test_every_collective_has_a_check():
    assert set(meeting.COLLECTIVES) == functions(ncc)


def test_cases_vary():
    """Over all targets, memories, layouts and dtypes; with NaN, infinities and subnormals."""
    types = {entry[1] for case in CASES for entry in (*case.reads.values(), *case.writes.values())}
    assert {case.target for case in CASES} == {"trn1", "trn2", "trn3"}
    assert len(types) == 16 and any("psum" in str(case.reads) for case in CASES)
    assert len(language.UNARY) > 30
