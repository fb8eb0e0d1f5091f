"""The compiler's flags: every documented spelling, and what is refused."""

from __future__ import annotations

import pytest

from neff.errors import NeffError
from neff.options import CompileOptions, parse_flags


def test_the_flags_of_the_documents() -> None:
    flags = parse_flags(
        ["--framework", "XLA", "--target=trn1", "-O1", "--auto-cast", "matmult", "--auto-cast-type",
         "fp16", "--lnc=2", "--enable-fast-loading-neuron-binaries", "--model-type=transformer",
         "x.pb", "-o", "y.neff"]
    )  # fmt: skip
    assert flags.options == CompileOptions(1, "matmult", "fp16", 2)
    assert (flags.target, flags.output, flags.fast_loading) == ("trn1", "y.neff", True)
    assert flags.ignored == ("--framework", "--model-type=transformer")
    assert flags.positional == ("x.pb",)


def test_abbreviations_and_lists() -> None:
    flags = parse_flags(
        ["--pipeline", "compile", "SaveTemps", "--targ", "trn2", "--opt=3", "--enable-fast-l",
         "--internal-enable-dge-levels", "io", "spill_reload", "x.pb", "--internal-x=1"]
    )  # fmt: skip
    assert (flags.target, flags.options.optlevel, flags.fast_loading) == ("trn2", 3, True)
    assert flags.ignored == ("--pipeline", "--internal-enable-dge-levels", "--internal-x=1")
    assert flags.positional == ("x.pb",)


def test_the_last_one_wins() -> None:
    assert parse_flags(["--optlevel", "1", "-O", "3"]).options.optlevel == 3


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--fast"], "--fast is not a flag"),
        (["--optlevel"], "needs a value: 1, 2, 3"),
        (["--optlevel", "9"], "cannot be '9'; allowed are 1, 2, 3"),
        (["--no_cache=1"], "takes no value"),
        (["--target=trn9"], "cannot be 'trn9'"),
        (["--auto=all"], "is short for --auto-cast, --auto-cast-type"),
        (["--pipeline", "-O1"], "needs one or more values"),
    ],
)
def test_wrong_flags(flags: list[str], text: str) -> None:
    with pytest.raises(NeffError, match=text) as caught:
        parse_flags(flags)
    assert caught.value.code == "NEFF-FLAG"


def test_a_flag_that_repeats_keeps_every_value() -> None:
    flags = parse_flags(["--kernels", "a.py:x", "--kernels=b", "--check-kernels"])
    assert flags.kernels == ("a.py:x", "b") and flags.check_kernels
