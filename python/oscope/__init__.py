"""An oscilloscope for operating systems: the laboratory's Python interface.

    import oscope
    run = oscope.run("syscall.cost", call=["getppid", "read"], reps=50)
    run.summary()

Importing this is cheap: a function's module, with numpy and the like, is loaded when it is first named.
"""

from oscope.model.errors import OscopeError, ProbeError, StoreError, UsageError
from oscope.model.version import __version__

TYPE_CHECKING = False
"""As of typing, which takes longer than a command that becomes another program may."""
if TYPE_CHECKING:
    from oscope.api import experiments, load, run, runs
    from oscope.bench_api import bench
    from oscope.fleet_api import fleet, load_fleet

__all__ = [
    "OscopeError",
    "ProbeError",
    "StoreError",
    "UsageError",
    "__version__",
    "bench",
    "experiments",
    "fleet",
    "load",
    "load_fleet",
    "run",
    "runs",
]

_MODULES = {
    "run": "oscope.api",
    "load": "oscope.api",
    "runs": "oscope.api",
    "experiments": "oscope.api",
    "bench": "oscope.bench_api",
    "fleet": "oscope.fleet_api",
    "load_fleet": "oscope.fleet_api",
    "load_ipython_extension": "oscope.magics",
}
"""Where each function is."""


def __getattr__(name: str) -> object:
    """Load the module of a function when it is first named (PEP 562)."""
    import importlib  # noqa: PLC0415 - start-up

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = getattr(importlib.import_module(_MODULES[name]), name)  # late import: numpy and pandas
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    """Return the names of the interface, for completion."""
    return sorted({*globals(), *__all__})
