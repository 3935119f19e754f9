"""Real kernels for the tests that boot guests: three, kept in the user's cache.

A test asks for one by its fixture. The first build takes minutes: `make setup` runs this module.
What is still missing is built before the first test, since a test has a time limit.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest

from oscope.model.errors import OscopeError
from oscope.targets import kernel as kernels
from oscope.targets.kernel import Kernel
from oscope.targets.kernel.listener import NullListener

TEST_PATCHES = Path(__file__).parent / "patches"
WANTED = {
    "base_kernel": "base",
    "slower_kernel": str(TEST_PATCHES / "five-nops.patch"),
    "patched_kernel": "my_precious+reclaim-policy",
}
"""The kernel of each fixture, as the command line names it, in the order that compiles least."""


class Told(NullListener):
    """Tells what is built, since the first build takes minutes."""

    _total: int | None = None
    _tenth = 0

    def begin(self, doing: str, total: int | None) -> None:
        """Write what begins."""
        self._total, self._tenth = total, 0
        print(f"oscope: {doing}", file=sys.stderr, flush=True)

    def progress(self, done: int) -> None:
        """Write each tenth that is done."""
        if self._total and self._tenth < (tenth := 10 * done // self._total):
            self._tenth = tenth
            print(f"oscope: {tenth}0 % done", file=sys.stderr, flush=True)


@functools.cache
def _provide(text: str) -> Kernel | OscopeError:
    try:
        return kernels.provide(text, Told())
    except OscopeError as error:
        return error


def built_kernel(text: str = WANTED["patched_kernel"]) -> Kernel:
    """Return the real kernel that `text` names, built if need be; a build that failed is not tried again."""
    found = _provide(text)
    if isinstance(found, OscopeError):
        pytest.fail(f"the kernel that the test needs cannot be had: {found}")
    return found


@pytest.fixture(scope="session")
def base_kernel() -> Kernel:
    """Return Debian's source as it is, with the guest's configuration."""
    return built_kernel(WANTED["base_kernel"])


@pytest.fixture(scope="session")
def slower_kernel() -> Kernel:
    """Return the same with a patch that has getppid() execute five instructions more."""
    return built_kernel(WANTED["slower_kernel"])


@pytest.fixture(scope="session")
def patched_kernel() -> Kernel:
    """Return Debian's source with both of Oscope's patches."""
    return built_kernel(WANTED["patched_kernel"])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the tests to come ask for: a test has a time limit, which a build would exceed."""
    if session.config.option.collectonly:
        return
    asked = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    for text in (text for name, text in WANTED.items() if name in asked):
        # An error is that of the tests which need the kernel, not of all.
        _provide(text)


if __name__ == "__main__":
    failed = [found for text in WANTED.values() if isinstance(found := _provide(text), OscopeError)]
    for error in failed:
        print(f"oscope: {error}", file=sys.stderr)
    sys.exit(1 if failed else 0)
