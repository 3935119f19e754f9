"""One sending, or a receiving of one transfer after the other: the verb's events turned into results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from oscope.model.errors import OscopeError, ProbeError
from oscope.model.interruption import Interruption
from oscope.tools.transfer.events import (
    Descriptor,
    Done,
    Event,
    Failure,
    Key,
    Left,
    Listening,
    Note,
    Peer,
    Progress,
)
from oscope.tools.transfer.verb import Verb

STALL_S = 30.0
"""Without progress for longer, the probe gives a transfer up."""
CONNECT_LIMIT_S = 10.0
PATIENCE_S = 600.0
"""Beyond its own limits: what was moved before an interruption is read again, by both sides, in silence."""


class Watcher(Protocol):
    """Receives what happens meanwhile."""

    def listening(self, address: str) -> None:
        """Tell where senders may connect."""

    def key(self, key: Key) -> None:
        """Tell the key that a sender has to have."""

    def met(self, peer: str) -> None:
        """Tell that a connection stands."""

    def progress(self, progress: Progress) -> None:
        """Tell how far the transfer is; at most ten times a second."""

    def note(self, text: str) -> None:
        """Tell something beside the data."""

    def left(self, left: Left) -> None:
        """Tell what was left out."""

    def descriptor(self, descriptor: Descriptor) -> None:
        """Tell of a page of a device's mapped area."""

    def done(self, done: Done) -> None:
        """Tell that a transfer is complete."""

    def failed(self, error: OscopeError) -> None:
        """Tell that a transfer failed and the next one is waited for."""


@dataclass(frozen=True)
class Common:
    """What both sides may be asked for."""

    method: str = "auto"
    stall_s: float = STALL_S
    device: str | None = None
    """`fcntl` or `mmap`: through the kernel modules' devices."""
    descriptors: bool = False
    key: str | None = None
    """The file of the key that both sides have; `-`, at the sender, is standard input."""
    trusted_network: bool = False
    """Neither authenticate nor encrypt."""

    @property
    def is_keyed(self) -> bool:
        """Whether both sides prove that they have the same key."""
        return self.device is None and not self.trusted_network

    def words(self) -> list[str]:
        """Return them as the verb's options."""
        found = ["--method", self.method, "--stall", f"{self.stall_s:g}"]
        if self.device is not None:
            found += ["--device", self.device]
        if self.descriptors:
            found.append("--descriptors")
        if self.key is not None:
            found += ["--key", self.key]
        if self.trusted_network:
            found.append("--trusted-network")
        return found


@dataclass(frozen=True)
class Sending:
    """Files and folders, and where they go."""

    files: Sequence[str]
    address: str
    digest: str = "blake3"
    """`blake3`, `sha512`, `xxh3`, or `none` to verify nothing; with a device `sha512` or `none`."""
    common: Common = Common()
    links: str = "keep"
    """What becomes of symbolic links in the folders: `keep`, `follow` or `skip`."""
    skip: Sequence[str] = ()
    """Names of what is left out."""

    def words(self) -> list[str]:
        """Return the verb and its arguments."""
        found = ["send", *self.common.words(), "--digest", self.digest]
        if self.links != "keep":
            found += ["--links", self.links]
        found += [f"--skip={name}" for name in self.skip]
        return [*found, "--", self.address, *self.files]


@dataclass(frozen=True)
class Receiving:
    """Where files come from, and the folder they go into."""

    into: str
    listen: str
    once: bool = False
    verify: bool = True
    common: Common = Common()

    def words(self) -> list[str]:
        """Return the verb and its arguments."""
        found = ["receive", *self.common.words(), "--listen", self.listen, "--into", self.into]
        found += ["--once"] if self.once else []
        return found if self.verify else [*found, "--no-verify"]


def send(sending: Sending, watcher: Watcher) -> Done:
    """Send once and return what it took.

    Raises UsageError where the request is wrong, OscopeError where the transfer failed or was interrupted,
    ProbeError where the probe is lost.
    """
    done: Done | None = None
    failure: Failure | None = None
    expected = 0
    with Verb(sending.words(), reads_input=sending.common.key == "-") as verb, Interruption(verb.terminate):
        verb.silence_limit_s = _silence_limit_s(sending.common)
        for event in verb.events():
            match event:
                case Done():
                    done = event
                case Failure():
                    failure = event
                case Left():
                    # The rest is sent, and the status says that it is not all.
                    expected = 1
                    watcher.left(event)
                case _:
                    _report(event, watcher)
        status = verb.wait()
        words = verb.last_words()
    if failure is not None:
        raise failure.to_error()
    if done is None or status != expected:
        raise ProbeError(f"oscope-probe send ended with status {status} and without a result{words}")
    watcher.done(done)
    return done


def receive(receiving: Receiving, watcher: Watcher) -> None:
    """Receive once, or one transfer after the other until a SIGINT or SIGTERM.

    Raises as `send` does; where several are received, only for what ends them all.
    """
    unheard: Failure | None = None
    reported: Failure | None = None
    served = False
    # With a key, `once` waits for the sender to try again.
    goes_on = not receiving.once or receiving.common.is_keyed
    with Verb(receiving.words()) as verb, Interruption(verb.terminate):
        for event in verb.events():
            match event:
                case Listening():
                    served = True
                    watcher.listening(event.address)
                case Key():
                    watcher.key(event)
                case Peer():
                    # A receiver with a device listens nowhere; before it has met a sender, a failure ends it.
                    served = True
                    verb.silence_limit_s = _silence_limit_s(receiving.common)
                    watcher.met(event.address)
                case Done():
                    verb.silence_limit_s = None
                    watcher.done(event)
                case Failure() if served and goes_on and not verb.terminated:
                    verb.silence_limit_s = None
                    watcher.failed(event.to_error())
                    reported = event if receiving.once else None
                case Failure():
                    unheard = event
                case _:
                    _report(event, watcher)
        status = verb.wait()
        words = verb.last_words()
    if status != 0:
        unheard = unheard or reported
    if unheard is not None:
        raise unheard.to_error()
    if status != 0:
        raise ProbeError(f"oscope-probe receive ended with status {status}{words}")


def _report(event: Event, watcher: Watcher) -> None:
    match event:
        case Peer():
            watcher.met(event.address)
        case Progress():
            watcher.progress(event)
        case Note():
            watcher.note(event.text)
        case Descriptor():
            watcher.descriptor(event)
        case Listening():
            # A sender through a device listens: it is the master of the original assignment.
            watcher.listening(event.address)
        case _:
            pass


def _silence_limit_s(common: Common) -> float:
    return common.stall_s + CONNECT_LIMIT_S + PATIENCE_S
