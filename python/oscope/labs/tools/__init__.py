"""The lab of small tools: a cleaned session, a program explained, devices, interfaces, DHCP. No samples."""

from __future__ import annotations

from oscope.figures.lazy_answers import lazy_inspected, lazy_inspection
from oscope.model.experiment import Inspection, Lab

SESSION = Inspection(
    name="tools.session",
    title="A recorded session, cleaned",
    question="What is left of what a terminal was sent, once it is what a person saw?",
    inspect=lazy_inspection("tools.inspections.make_session", "make"),
    quick=False,
    quick_share="not in it: what it shows is the same on every machine",
)

EXPLAIN = Inspection(
    name="tools.explain",
    title="The start of a program, explained",
    question="What does a program do before its own first call, and what is each call for?",
    inspect=lazy_inspection("tools.inspections.look", "explain"),
    quick=True,
    quick_share="one run of cat under strace, about a second",
)

DEVICES = Inspection(
    name="tools.devices",
    title="Device files held open",
    question="Which device files do processes hold open, and what is each of them?",
    inspect=lazy_inspection("tools.inspections.look", "devices"),
    quick=True,
    quick_share="one look, about a second",
)

INTERFACES = Inspection(
    name="tools.interfaces",
    title="Network interfaces",
    question="Which interfaces are there, with which addresses, and which carries the default route?",
    inspect=lazy_inspection("tools.inspections.look", "interfaces"),
    quick=True,
    quick_share="one look, about a second",
)

DHCP = Inspection(
    name="tools.dhcp",
    title="DHCP: lease, renewal, release, and a release that is lost",
    question="How does a host get an address, and what becomes of it when the release is lost?",
    inspect=lazy_inspection("tools.inspections.play_dhcp", "play"),
    quick=False,
    quick_share="not in it: 10 s, and with the lost release the whole lease of 2 minutes",
)


LAB = Lab(
    name="tools",
    title="Tools",
    document="a graduate laboratory's report on tools: script, strace, device files, interfaces and DHCP",
    experiments=(),
    inspections=(SESSION, EXPLAIN, DEVICES, INTERFACES, DHCP),
    sections=lazy_inspected(
        __name__,
        session="inspection_sections:session",
        explain="explain",
        devices="inspection_sections:devices",
        interfaces="inspection_sections:interfaces",
        dhcp="dhcp",
    ),
    notebook="notebooks/tools.ipynb",
)
