"""Registers, cores, generators and ranks."""

import pytest

from tests.oracles import meeting


@pytest.mark.parametrize("check", meeting.INSTRUCTIONS, ids=lambda check: check.__name__)
def test_instruction(check):
    check()


@pytest.mark.parametrize("name", meeting.COLLECTIVES)
def test_collective(name):
    meeting.COLLECTIVES[name]()
