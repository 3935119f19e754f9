"""What another host is: the value that a plan holds, from which the same host can be reached again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oscope.model.errors import UsageError

_ADDRESS = re.compile(r"(ssh://)?[A-Za-z0-9_\[][A-Za-z0-9_.:%@\[\]-]*")
"""Nothing that a shell or ssh itself takes for anything else than a name."""


@dataclass(frozen=True)
class Host:
    """Where a run is measured: a host that ssh reaches."""

    address: str
    """As for ssh: a name of its configuration, HOST, USER@HOST or ssh://USER@HOST:PORT."""
    name: str
    """For people; of one fleet, each has its own."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What a fleet's file says of the host, such as its rack."""
    ssh_config: str | None = None
    """The configuration file of ssh; None: the user's own."""

    def __post_init__(self) -> None:
        """Raise UsageError for an address that cannot be."""
        if not _ADDRESS.fullmatch(self.address):
            raise UsageError(
                f"{self.address!r} is no host for ssh",
                remedy="write HOST, USER@HOST, ssh://USER@HOST:PORT or a name of ssh's configuration",
            )

    def __hash__(self) -> int:
        """Return the hash of what distinguishes hosts."""
        return hash((self.address, self.name))

    def to_object(self) -> dict[str, Any]:
        """Return a JSON object from which `from_object` makes an equal host."""
        return {
            "address": self.address,
            "name": self.name,
            **({"labels": dict(self.labels)} if self.labels else {}),
            **({} if self.ssh_config is None else {"ssh_config": self.ssh_config}),
        }

    @classmethod
    def from_object(cls, data: Mapping[str, Any]) -> Host:
        """Read what `to_object` returned."""
        return cls(data["address"], data["name"], data.get("labels", {}), data.get("ssh_config"))
