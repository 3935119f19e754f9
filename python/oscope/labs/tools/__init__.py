"""The lab of small tools: a cleaned session, a program explained, devices, interfaces, DHCP. No samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oscope.labs.late import late
from oscope.model.experiment import Inspection, Lab
from oscope.model.factors import Profile


# Imported late, all of them: a list of names needs none.
def _session(profile: Profile) -> Mapping[str, Any]:
    from oscope.labs.tools.make_session import make  # noqa: PLC0415 - a list of names needs none of it

    return make(profile)


def _explain(profile: Profile) -> Mapping[str, Any]:
    from oscope.labs.tools.look import explain  # noqa: PLC0415 - a list of names needs none of it

    return explain(profile)


def _devices(profile: Profile) -> Mapping[str, Any]:
    from oscope.labs.tools.look import devices  # noqa: PLC0415 - a list of names needs none of it

    return devices(profile)


def _interfaces(profile: Profile) -> Mapping[str, Any]:
    from oscope.labs.tools.look import interfaces  # noqa: PLC0415 - a list of names needs none of it

    return interfaces(profile)


def _dhcp(profile: Profile) -> Mapping[str, Any]:
    from oscope.labs.tools.play_dhcp import play  # noqa: PLC0415 - a list of names needs none of it

    return play(profile)


SESSION = Inspection(
    name="tools.session",
    title="A recorded session, cleaned",
    question="What is left of what a terminal was sent, once it is what a person saw?",
    inspect=_session,
    quick=False,
    quick_share="not in it: what it shows is the same on every machine",
)

EXPLAIN = Inspection(
    name="tools.explain",
    title="The start of a program, explained",
    question="What does a program do before its own first call, and what is each call for?",
    inspect=_explain,
    quick=True,
    quick_share="one run of cat under strace, about a second",
)

DEVICES = Inspection(
    name="tools.devices",
    title="Device files held open",
    question="Which device files do processes hold open, and what is each of them?",
    inspect=_devices,
    quick=True,
    quick_share="one look, about a second",
)

INTERFACES = Inspection(
    name="tools.interfaces",
    title="Network interfaces",
    question="Which interfaces are there, with which addresses, and which carries the default route?",
    inspect=_interfaces,
    quick=True,
    quick_share="one look, about a second",
)

DHCP = Inspection(
    name="tools.dhcp",
    title="DHCP: lease, renewal, release, and a release that is lost",
    question="How does a host get an address, and what becomes of it when the release is lost?",
    inspect=_dhcp,
    quick=False,
    quick_share="not in it: 10 s, and with the lost release the whole lease of 2 minutes",
)


LAB = Lab(
    name="tools",
    title="Tools",
    document=(
        "a graduate laboratory's report on its tools: a cleaned `script` recording, strace, open device "
        "files, network interfaces, and the packets of DHCP"
    ),
    experiments=(),
    inspections=(SESSION, EXPLAIN, DEVICES, INTERFACES, DHCP),
    sections=late("tools", "answers"),
    notebook="notebooks/tools.ipynb",
)
