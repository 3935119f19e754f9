"""Any program as an experiment: what `oscope bench` measures, as a plan like any other, and what it found."""

from oscope.programs.command import Command, Parameter, Surroundings
from oscope.programs.experiment import EXPERIMENT, Amount, BenchSpec, bench_plan
from oscope.programs.findings import Findings, find
from oscope.programs.place import Conditions

__all__ = [
    "EXPERIMENT",
    "Amount",
    "BenchSpec",
    "Command",
    "Conditions",
    "Findings",
    "Parameter",
    "Surroundings",
    "bench_plan",
    "find",
]
