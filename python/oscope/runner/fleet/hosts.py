"""The file of a fleet's hosts, `fleet.toml`: read, written, and chosen from."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oscope.model.errors import UsageError
from oscope.model.host import Host

FILE = "fleet.toml"
RACK = "rack"
"""The label of hosts that are not to be measured at the same time."""
PARALLEL = 4
"""Hosts at the same time, unless racks decide."""
MOST_PARALLEL = 1000
_GROUPS = "groups"
_KNOWN = ("address", _GROUPS, "labels")
_REMEDY = "see docs/howto/fleet.md, or make one with oscope fleet init"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Member:
    """A host of a fleet, and the groups that it is in."""

    host: Host
    groups: tuple[str, ...] = ()

    def matches(self, word: str) -> bool:
        """Say whether a word of `--hosts` means it: a name, a pattern, @GROUP or LABEL=VALUE."""
        if word.startswith("@"):
            return word[1:] in self.groups
        label, equals, value = word.partition("=")
        if equals:
            return self.host.labels.get(label) == value
        return fnmatch.fnmatchcase(self.host.name, word)


@dataclass(frozen=True)
class FleetFile:
    """The hosts of a fleet, in the order of the file."""

    members: tuple[Member, ...] = field(default=())

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All hosts."""
        return tuple(member.host for member in self.members)

    def choose(self, expression: str | None, option: str = "--hosts ") -> tuple[Host, ...]:
        """Return the hosts that any word of `expression` means, without those that a word after `!` means.

        Raises UsageError for a word that means no host; `option` is where it was given.
        """
        if expression is None:
            return self.hosts
        words = [word.strip() for word in expression.split(",") if word.strip()]
        for word in words:
            if not any(member.matches(word.removeprefix("!")) for member in self.members):
                raise UsageError(
                    f"{option}{word}: no host of the fleet is meant",
                    remedy="give names, patterns such as n1*, @GROUP or LABEL=VALUE, parted by commas",
                )
        included = [word for word in words if not word.startswith("!")] or ["*"]
        without = [word[1:] for word in words if word.startswith("!")]
        chosen = tuple(
            member.host
            for member in self.members
            if any(map(member.matches, included)) and not any(map(member.matches, without))
        )
        if not chosen:
            raise UsageError(f"{option}{expression}: no host is left", remedy="leave out fewer of them")
        return chosen


def read(path: Path) -> FleetFile:
    """Read a fleet's file. Raises UsageError, with the place, where it is none."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no {path}", remedy=_REMEDY) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read ({error})", remedy=_REMEDY) from error
    hosts = data.get("hosts")
    if not isinstance(hosts, dict) or not hosts:
        raise UsageError(f"{path} names no hosts", remedy=_REMEDY)
    unknown = [*(data.keys() - {"hosts", "ssh_config"})]
    if unknown:
        raise UsageError(f"{path} has an unknown entry {unknown[0]!r}", remedy=_REMEDY)
    config = data.get("ssh_config")
    if config is not None:
        if not isinstance(config, str):
            raise UsageError(f"{path}: ssh_config is no text", remedy=_REMEDY)
        # As seen from the file, wherever the command is called.
        config = str((path.parent / Path(config).expanduser()).absolute())
    return FleetFile(tuple(_member(path, name, each, config) for name, each in hosts.items()))


def _member(path: Path, name: str, data: Any, config: str | None) -> Member:
    where = f"{path}: host {name}"
    if not isinstance(data, dict):
        raise UsageError(f"{where} is no table", remedy=f"write [hosts.{name}]")
    for key in data:
        if key not in _KNOWN:
            raise UsageError(f"{where} has an unknown entry {key!r}", remedy=f"there is {', '.join(_KNOWN)}")
    address, groups, labels = data.get("address", name), data.get(_GROUPS, []), data.get("labels", {})
    if not isinstance(address, str) or not _texts(groups) or not isinstance(labels, dict):
        raise UsageError(
            f"{where} is malformed",
            remedy="address is a text, groups a list of texts, labels a table of texts",
        )
    if not _texts([*labels.values()]):
        raise UsageError(f"{where} has a label that is no text", remedy='write it like rack = "r1"')
    try:
        return Member(Host(address, name, labels, config), tuple(groups))
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", remedy=error.remedy) from None


def _texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def write(members: Iterable[Member], ssh_config: Path | None = None) -> str:
    """Return the text of a fleet's file; `ssh_config`: ssh reaches them by it, if not the user's own."""
    lines = [
        "# Hosts that oscope fleet measures on. address: as for ssh, the name by default.",
        "# groups and labels are chosen by: --hosts @GROUP,rack=r1. See docs/howto/fleet.md.",
    ]
    if ssh_config is not None and ssh_config.absolute() != Path("~/.ssh/config").expanduser():
        lines.append(f"ssh_config = {_text(str(ssh_config.absolute()))}")
    for member in members:
        lines += ["", f"[hosts.{_key(member.host.name)}]"]
        if member.host.address != member.host.name:
            lines.append(f"address = {_text(member.host.address)}")
        if member.groups:
            lines.append(f"{_GROUPS} = [{', '.join(map(_text, member.groups))}]")
        if member.host.labels:
            inner = ", ".join(f"{_key(name)} = {_text(value)}" for name, value in member.host.labels.items())
            lines.append(f"labels = {{ {inner} }}")
    return "\n".join([*lines, ""])


def _text(value: str) -> str:
    # A JSON text is a TOML text, but for characters that TOML wants escaped and JSON does not.
    return json.dumps(value).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def of_names(names: Sequence[str]) -> Iterator[Member]:
    """Yield hosts of which only the address is known, which is their name."""
    for name in names:
        yield Member(Host(name, name))


def of_ssh_config(text: str) -> Iterator[Member]:
    """Yield the hosts that an ssh configuration names (ssh_config(5)); patterns name none."""
    for line in text.splitlines():
        keyword, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        if keyword.lower() == "host":
            for name in shlex.split(rest, comments=True):
                if not set(name) & set("*?!"):
                    yield Member(Host(name, name))


def of_inventory(data: Any) -> Iterator[Member]:
    """Yield the hosts of an Ansible inventory, as `ansible-inventory --list` prints it. Raises UsageError."""
    if not isinstance(data, Mapping) or not isinstance(data.get("_meta"), Mapping):
        raise UsageError(
            "not an inventory as JSON", remedy="give what this prints: ansible-inventory -i FILE --list"
        )
    variables = data["_meta"].get("hostvars", {})
    groups: dict[str, list[str]] = {}
    for group, each in data.items():
        if group == "_meta" or not isinstance(each, Mapping):
            continue
        for name in each.get("hosts", []):
            groups.setdefault(name, []).append(group)
    for name in dict.fromkeys([*groups, *variables]):
        own = variables.get(name, {})
        address = str(own.get("ansible_host", name))
        user, port = own.get("ansible_user"), own.get("ansible_port")
        if user or port:
            at = f"{user}@{address}" if user else address
            address = f"ssh://{at}:{port}" if port else at
        usual = ("all", "ungrouped")
        yield Member(
            Host(address, name), tuple(group for group in groups.get(name, []) if group not in usual)
        )
