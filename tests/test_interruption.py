"""Ctrl-C: the first one is acted on by the innermost block, and the second one ends the program."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from oscope.model.interruption import Interruption, raise_interrupt


@pytest.fixture
def handler() -> Iterator[object]:
    """Have SIGINT raise KeyboardInterrupt, as in the program."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, former)


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_reacted_to_and_the_second_raises(handler: object) -> None:
    heard: list[str] = []
    with Interruption(lambda: heard.append("outer")):
        press_ctrl_c()
        assert heard == ["outer"]
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
    assert heard == ["outer"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_the_second_is_no_first_one_of_an_outer_block(handler: object) -> None:
    heard: list[str] = []
    with Interruption(lambda: heard.append("outer")):
        with pytest.raises(KeyboardInterrupt), Interruption(raise_interrupt):
            press_ctrl_c()
        assert heard == []
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
    assert heard == []
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_inner_block_that_ends_leaves_the_outer_one_its_signal(handler: object) -> None:
    heard: list[str] = []
    with Interruption(lambda: heard.append("outer")):
        with Interruption(lambda: heard.append("inner")):
            pass
        press_ctrl_c()
    assert heard == ["outer"]
    assert signal.getsignal(signal.SIGINT) is handler
