from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from cli_driver import CommandLine, described
from oscope.model.experiment import Design, Experiment
from oscope.planning.plan import Plan, make_plan
from oscope.probe.catalogue import Catalogue, load
from oscope.storage.store import Store

pytest_plugins = [
    "browsers", "dhcp_played", "fs_desk", "fs_scene", "git_scene", "kernels", "postgresql_server",
    "toy_kernel", "transfer_pair", "viewed",
]  # fmt: skip

# An example that waits for a CPU, or for a module that is loaded, is no failure.
hypothesis.settings.register_profile(
    "oscope", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("oscope")


def _unlike_in_the_background() -> None:
    """Have commands notice Ctrl-C and a closed terminal where who runs the tests ignores both.

    A shell has what it starts with `&` ignore SIGINT, and nohup SIGHUP: commands would inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # What has a handler is as by default in a new process, and does not end this one.
        signal.signal(signal.SIGHUP, lambda *_: None)


_unlike_in_the_background()

TESTS = Path(__file__).parent
LONGEST = (
    "test_modules_devices",
    "test_guest_boot",
    "test_transfer_guests",
    "test_run_on_guest",
    "test_guest_pair",
    "test_notebooks",
    "test_fs_kills",
    "test_fs_cut",
    "test_benchmarks",
    "test_fleet_spool",
    "test_report_browser",
    "test_fleet",
    "test_run_on_host",
)
LAST = ("test_dhcp_lab", "test_dhcp_lab_answers")
ORDER = {name: place for place, name in enumerate(LONGEST)} | dict.fromkeys(LAST, len(LONGEST) + 1)
TOGETHER = dict.fromkeys(LAST, LAST[0]) | {"test_view_browser": "test_view"}
"""Modules that share a fixture of the session."""
ROOT = TESTS.parent


class ByModule(LoadScopeScheduling):
    """Keeps each module's tests on one worker, which then makes the module's fixtures once.

    `--dist loadgroup` does not: pytest-xdist 3.8 sets an attribute of tests that pytest 9.2 no longer has.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = Path(nodeid.partition("::")[0]).stem
        return TOGETHER.get(module, module)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByModule:
    return ByModule(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, and end with what waits for the DHCP lab, which plays meanwhile.

    In between the order is arbitrary, and always the same: by their names, modules that wait, such as those
    of the file system, would all run at a time, with idle CPUs.
    """
    items.sort(key=lambda item: (ORDER.get(item.path.stem, len(LONGEST)), crc32(item.path.stem.encode())))


def pytest_collection_finish() -> None:
    """Look for garbage rarely, and not in what was imported: it took a twentieth of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)


@pytest.fixture(scope="session")
def real_probe() -> Path:
    """Return the built probe. Where there is none, the tests that need it fail rather than pass unseen."""
    candidates = [
        Path(os.environ.get("OSCOPE_PROBE", "/nonexistent")),
        Path(sys.executable).parent / "oscope-probe",
        ROOT / "target/release/oscope-probe",
        ROOT / "target/debug/oscope-probe",
        Path(shutil.which("oscope-probe") or "/nonexistent"),
    ]
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate
    pytest.fail("oscope-probe is not built: run `make setup`")


@pytest.fixture(scope="session")
def copied_probe(real_probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the built probe for this worker: a tracer sees all processes of its file."""
    return Path(shutil.copy2(real_probe, tmp_path_factory.mktemp("copy")))


@pytest.fixture
def traced_probe(copied_probe: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the laboratory use that copy."""
    monkeypatch.setenv("OSCOPE_PROBE", str(copied_probe))
    return copied_probe


@pytest.fixture
def probe(real_probe: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the laboratory use the built probe."""
    monkeypatch.setenv("OSCOPE_PROBE", str(real_probe))
    return real_probe


@pytest.fixture
def fake_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have the laboratory use the fake probe; return its path."""
    program = tmp_path / "fake-probe"
    program.write_text(f"#!{sys.executable} -IS\n{(TESTS / 'fake_probe.py').read_text()}")
    program.chmod(0o755)
    state = tmp_path / "fake-state"
    state.mkdir()
    monkeypatch.setenv("OSCOPE_PROBE", str(program))
    monkeypatch.setenv("FAKE_PROBE_STATE", str(state))
    return program


@pytest.fixture
def catalogue(fake_probe: Path) -> Catalogue:
    """Return what the fake probe can measure."""
    return load(fake_probe)


@pytest.fixture
def plan(catalogue: Catalogue) -> Plan:
    """Give a plan of one experiment with two points."""
    return make_plan([make_experiment({"size": (1, 2)})], catalogue, seed=1)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest) -> str:
    """Give a store of each kind."""
    name = "store_path" if request.param == "sqlite" else "postgresql"
    return str(request.getfixturevalue(name))


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Where the test's store is, if it opens one."""
    return tmp_path / "oscope.db"


@pytest.fixture
def store(store_path: Path) -> Iterator[Store]:
    """Open an empty store."""
    with Store.open(store_path) as opened:
        yield opened


@pytest.fixture(scope="session")
def _own_places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.fixture(autouse=True)
def _own_store(_own_places: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the tests away from the user's own store, and from what is noted of other measurements."""
    with tempfile.TemporaryDirectory(dir=_own_places, ignore_cleanup_errors=True) as place:
        monkeypatch.setenv("OSCOPE_STORE", str(Path(place, "oscope.db")))
        (state := Path(place, "state")).mkdir()
        monkeypatch.setenv("OSCOPE_STATE", str(state))
        yield


def make_experiment(
    factors: dict[str, tuple[object, ...]], reps: int = 4, blocks: int = 2, name: str = "fake.experiment"
) -> Experiment:
    """Return an experiment over the fake workload."""
    return Experiment(
        name=name,
        workload="fake.work",
        title="Fake work",
        question="What does pretending cost?",
        full=Design(factors, reps, blocks),  # type: ignore[arg-type]
        quick=None,
        quick_share="none",
        metrics=("time_ns",),
    )


@pytest.fixture
def oscope(fake_probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line, in a folder of its own, with the fake probe."""
    del fake_probe
    folder = tmp_path / "here"
    folder.mkdir()
    return CommandLine(folder, {"FAKE_PROBE_DESCRIBE": described()})


@pytest.fixture
def session_command(tmp_path: Path) -> CommandLine:
    """Give the command line, in a folder of its own, with a probe that answers what FAKE_EVENTS tells."""
    program = tmp_path / "session-probe"
    program.write_text(f"#!{sys.executable} -IS\n{(TESTS / 'fake_session_probe.py').read_text()}")
    program.chmod(0o755)
    folder = tmp_path / "here"
    folder.mkdir()
    environment = {"FAKE_REQUESTS": str(tmp_path / "requests"), "FAKE_EVENTS": "[]"}
    return CommandLine(folder, {"OSCOPE_PROBE": str(program), **environment})
