"""`oscope interfaces` in network namespaces whose interfaces are known, beside ioctl and sysfs."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_driver import ROOT, CommandLine
from waiting import wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

SCENE = """\
set -e
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 2>/dev/null || true
ip link add left type veth peer name right
ip link set left address 02:00:5e:00:00:0a mtu 1400 up
ip link set right up
ip tuntap add dev tap0 mode tap
# Not every kernel has these.
ip link add bridge0 type bridge 2>/dev/null || true
ip link add link left name tagged type vlan id 7 2>/dev/null || true
ip address add 192.0.2.2/25 dev left
ip address add 192.0.2.3/25 dev left
ip address add 2001:db8::2/64 dev left nodad
ip address add 198.51.100.1 peer 198.51.100.2/32 dev right
ip route add default via 192.0.2.1 dev left metric 200
ip route add default via 192.0.2.9 dev left metric 100
ip route add default via 198.51.100.2 dev right metric 100 table 42
ip -6 route add default via 2001:db8::1 dev left
ip -6 route add unreachable default metric 4294967295 2>/dev/null || true
exec "$@"
"""


def seen(*words: str, scene: str = SCENE) -> subprocess.CompletedProcess[str]:
    """Carry out `oscope interfaces WORDS` in a network namespace of its own, which vanishes with it."""
    command = [sys.executable, "-m", "oscope", "interfaces", *words]
    return subprocess.run(
        ["unshare", "--net", "sh", "-c", scene, "sh", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@needs_root
def test_known_interfaces_are_told() -> None:
    answer = seen("--json")
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    assert found["schema"] == "oscope.interfaces/1"
    by_name = {one["name"]: one for one in found["interfaces"]}
    kinds = {"lo": "loopback", "left": "veth", "right": "veth", "tap0": "tun"}
    kinds |= {name: kind for name, kind in (("tagged", "vlan"), ("bridge0", "bridge")) if name in by_name}
    assert {name: by_name[name]["kind"] for name in kinds} == kinds
    left = by_name["left"]
    assert (left["link_address"], left["mtu"], left["kind"], left["state"]) == (
        "02:00:5e:00:00:0a",
        1400,
        "veth",
        "UP",
    )
    assert [by_name[name]["is_enabled"] for name in ("left", "tap0")] == [True, False]
    fours = [one for one in left["addresses"] if one["family"] == 4]
    assert [(one["address"], one["prefix"], one["netmask"]) for one in fours] == [
        ("192.0.2.2", 25, "255.255.255.128"),
        ("192.0.2.3", 25, "255.255.255.128"),
    ]
    assert "secondary" in fours[1]["notes"]
    assert ("2001:db8::2", 64, None) in [
        (one["address"], one["prefix"], one["netmask"]) for one in left["addresses"]
    ]
    (pair,) = (one for one in by_name["right"]["addresses"] if one["family"] == 4)
    assert (pair["address"], pair["peer"]) == ("198.51.100.1", "198.51.100.2")


@needs_root
def test_the_route_of_least_metric_in_the_main_table_carries() -> None:
    found = json.loads(seen("--json").stdout)
    carriers = [
        (one["family"], one["gateway"], one["metric"]) for one in found["default_routes"] if one["is_carrier"]
    ]
    assert carriers == [(4, "192.0.2.9", 100), (6, "2001:db8::1", 1024)]
    assert {one["table"] for one in found["default_routes"]} == {"main", "42"}
    assert [one["name"] for one in found["interfaces"] if one["carries_default"]] == ["left"]
    table = seen().stdout
    assert "default route of IPv4: left to 192.0.2.9 (metric 100)" in table
    assert "not taken: right to 198.51.100.2 (metric 100), in the table 42" in table


@needs_root
def test_the_kernel_takes_the_route_that_is_told_to_carry() -> None:
    """What the kernel answers when asked for a way, instead of for its tables."""
    scene = SCENE.replace('exec "$@"', "ip -json route get 203.0.113.1; ip -json -6 route get 2001:db8:1::1")
    four, six = (json.loads(line)[0] for line in seen(scene=scene).stdout.splitlines() if line != "")
    assert (four["dev"], four["gateway"]) == ("left", "192.0.2.9")
    assert (six["dev"], six["gateway"]) == ("left", "2001:db8::1")


@needs_root
def test_a_route_over_several_and_one_whose_link_is_down() -> None:
    several = (
        "ip route del default metric 100; ip route del default metric 200;"
        "ip route add default nexthop via 192.0.2.1 dev left nexthop via 198.51.100.2 dev right;"
    )
    found = json.loads(seen("--json", scene=SCENE.replace("exec", f"{several} exec")).stdout)
    carriers = [
        one["interface"] for one in found["default_routes"] if one["is_carrier"] and one["family"] == 4
    ]
    assert carriers == ["left", "right"]
    down = "ip link set right down;"
    found = json.loads(seen("--json", scene=SCENE.replace("exec", f"{down} exec")).stdout)
    assert [one["name"] for one in found["interfaces"] if one["carries_default"]] in ([], ["left"])
    usable = {one["gateway"]: one["is_usable"] for one in found["default_routes"] if one["family"] == 4}
    assert usable["192.0.2.9"] is False


@needs_root
def test_a_namespace_with_nothing_but_loopback() -> None:
    answer = seen(scene='exec "$@"')
    assert answer.returncode == 0
    assert "default route of IPv4: none" in answer.stdout
    assert "default route of IPv6: none" in answer.stdout


def test_it_agrees_with_ioctl_and_sysfs(tmp_path: Path) -> None:
    """netdevice(7) and sysfs are other ways to the same facts than rtnetlink."""

    def all_names() -> set[str]:
        return {path.name for path in Path("/sys/class/net").iterdir()}

    def seen_at_rest() -> tuple[dict[str, Any], set[str]] | None:
        """Look while nobody makes or removes an interface: other tests do."""
        before = all_names()
        answer = json.loads(CommandLine(tmp_path)("interfaces", "--json").out)
        return (answer, before) if before == all_names() else None

    found, names = wait_until(seen_at_rest, "a time in which the interfaces stay")
    assert {one["name"] for one in found["interfaces"]} == names
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for one in found["interfaces"]:
            folder = Path("/sys/class/net", one["name"])
            assert int((folder / "mtu").read_text()) == one["mtu"]
            assert int((folder / "ifindex").read_text()) == one["index"]
            assert (folder / "address").read_text().strip() == one["link_address"]
            fours = [address for address in one["addresses"] if address["family"] == 4]
            if fours:
                request = struct.pack("256s", one["name"].encode())
                reported = {
                    name: socket.inet_ntoa(fcntl.ioctl(control, number, request)[20:24])
                    for name, number in (("address", 0x8915), ("netmask", 0x891B))
                }
                assert reported == {name: fours[0][name] for name in reported}


def test_without_ip_it_is_one_line(tmp_path: Path) -> None:
    answer = CommandLine(tmp_path)("interfaces", PATH="/nonexistent")
    assert (answer.code, answer.err) == (1, "oscope: ip(8) is missing: install it: apt install iproute2\n")
