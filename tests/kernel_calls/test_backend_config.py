"""The configuration of a kernel call, against the one that the vendor's page prints."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from hlo_tools.errors import HloError, HloUnsupportedError
from hlo_tools.kernels.backend_config import BackendConfig, decode, decode_backend_config, encode
from hlo_tools.kernels.calls import resolve
from nki_lang.base.unknown_fields import ALLOW_VARIABLE

PRINTED = (
    "eyJrZXJuZWxfdmVyc2lvbiI6IDEsICJrbGlyX2JpbmFyeSI6IHsiYmluYXJ5IjogIi90bXAvbmtpX3RlbnNvcl9hZG"
    "RncmV6aGF4eS5rbGlyIiwgImlucHV0X25hbWVzIjogWyJhX2lucHV0IiwgImJfaW5wdXQiLCAidG1wLjQiXSwgIm91"
    "dHB1dF9uYW1lcyI6IFsiY19vdXRwdXQuMzUiXX0sICJmdW5jX25hbWUiOiAibmtpX3RlbnNvcl9hZGQiLCAiZ3JpZC"
    "I6IFtdLCAiaGFzX2NvbGxlY3RpdmVzIjogZmFsc2V9"
)


def test_the_printed_configuration() -> None:
    config = decode(PRINTED)
    assert config.func_name == "nki_tensor_add"
    assert config.input_names == ("a_input", "b_input", "tmp.4")
    assert config.output_names == ("c_output.35",)
    assert config.grid == () and config.has_collectives is False and config.kernel_version == 1
    assert config.binary.endswith(".klir")


def test_encoding_gives_the_printed_characters() -> None:
    assert encode(decode(PRINTED)) == PRINTED
    config = BackendConfig(
        decode(PRINTED).binary, ["a_input", "b_input", "tmp.4"], ["c_output.35"], "nki_tensor_add"
    )
    assert encode(config) == PRINTED
    assert decode(PRINTED.encode()) == config


def test_keys_of_later_versions_are_kept() -> None:
    record = decode_backend_config(PRINTED)
    record["later"] = {"x": [1]}
    record["klir_binary"]["sha"] = "ab"
    text = base64.b64encode(json.dumps(record).encode()).decode()
    assert encode(decode(text)) == text


def packed(**changes: Any) -> str:
    record = decode_backend_config(PRINTED)
    record.update(changes)
    record = {key: value for key, value in record.items() if value is not None}
    return base64.b64encode(json.dumps(record).encode()).decode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("not base64!", "not base64"),
        ("abc", "not base64"),
        (base64.b64encode(b"{").decode(), "does not contain JSON"),
        (base64.b64encode(b"\xff\xfe{").decode(), "does not contain JSON"),
        (base64.b64encode(b"[1]").decode(), "its JSON is list"),
        (base64.b64encode(b"[" * 100_000).decode(), "does not contain JSON"),
        (packed(func_name=None), "the key func_name is missing"),
        (packed(klir_binary={"binary": "a"}), "the key klir_binary.input_names is missing"),
        (packed(grid=[1, "2"]), r"grid\[1\] is '2', not an integer"),
        (packed(grid=[True]), r"grid\[0\] is True, not an integer"),
        (packed(grid=4), "grid is 4, not a list"),
        (packed(has_collectives=0), "has_collectives is 0, not true or false"),
    ],
)
def test_wrong_configurations_name_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(HloError, match=message) as caught:
        decode(text)
    assert caught.value.code == "HLO-CONFIG"
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"later": 1}, "the key later"),
        ({"kernel_version": 2}, "kernel_version 2"),
        (
            {"klir_binary": {"binary": "a", "input_names": [], "output_names": [], "sha": "x"}},
            r"the key klir_binary\.sha",
        ),
    ],
)
def test_a_kernel_of_a_later_version_is_not_executed(
    changes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HloUnsupportedError, match=message) as refused:
        resolve(packed(**changes))
    assert refused.value.code == "HLO-UNKNOWN-FIELD" and "newer" in refused.value.remedy
    monkeypatch.setenv(ALLOW_VARIABLE, "1")
    with pytest.raises(HloError) as missing:  # the kernel file
        resolve(packed(**changes))
    assert missing.value.code in ("HLO-KERNEL-PATH", "HLO-KERNEL-MISSING")
