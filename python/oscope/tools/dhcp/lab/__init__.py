"""DHCP as it happens: a real server and real clients in network namespaces, captured at both ends.

`scenario_runner` starts `namespace_host` in namespaces of its own and keeps its output; `result` reads the
captures.
"""
