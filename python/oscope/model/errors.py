"""The errors that Oscope raises on purpose: each is one line that says what, where and how to fix it."""

from __future__ import annotations

from collections.abc import Collection


class OscopeError(Exception):
    """Something failed while running (exit code 1)."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """One line: what and where, then the remedy."""
        return f"{self.message}: {self.remedy}" if self.remedy else self.message


class BusyError(OscopeError):
    """Another program is measuring the same."""


class UsageError(OscopeError):
    """The request itself is wrong (exit code 2)."""

    exit_code = 2


class UnknownFactorError(UsageError):
    """No experiment that is measured has a factor of this name."""

    def __init__(self, name: str, known: Collection[str], remedy: str) -> None:
        super().__init__(f"no experiment here has a factor {name!r}", remedy=remedy)
        self.name = name
        self.known = known


class NoCommonValueError(UsageError):
    """Two sides have no value of one metric at one point to compare."""


class ProbeError(OscopeError):
    """The probe died, hung, or broke the protocol."""


class BrokenProtocolError(ProbeError):
    """A workload program of the user's own does not keep to the protocol: no other try would help."""


class SilentProgramError(ProbeError):
    """A workload program of the user's own was silent for longer than its patience: a try takes as long."""


class StoreError(OscopeError):
    """The store cannot be opened, read or written."""


class StoreNameError(StoreError):
    """What `--store` or `OSCOPE_STORE` names can be no store of this user: a wrong request (exit code 2)."""

    exit_code = 2


class StoreUnavailableError(StoreError):
    """The store's database cannot be reached now; later it may be."""
