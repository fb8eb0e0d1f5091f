"""Services of higher layers: every registered name loads, and an unknown name is refused."""

import tomllib
from pathlib import Path

import pytest

from nki_lang.base.errors import NkiError
from nki_lang.base.services import COMMANDS, SERVICES, service

ROOT = Path(__file__).resolve().parents[2]
REGISTERED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]


@pytest.mark.parametrize("group", [SERVICES, COMMANDS])
def test_every_registered_name_loads(group: str) -> None:
    for name in REGISTERED[group]:
        assert service(name, group) is not None


def test_a_missing_service_names_the_remedy() -> None:
    with pytest.raises(NkiError, match=r"NKI-INSTALL.*\n.*pip install -e"):
        service("time-travel")
