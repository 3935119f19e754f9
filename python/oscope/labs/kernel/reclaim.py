"""What the policies of reclaim do to each mapping: Figure 6 of the original report, with verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from oscope import questions as q
from oscope.labs.kernel import MAPPINGS, POLICIES
from oscope.model import clocks
from oscope.questions import clocked
from oscope.statistics.estimating import FEWEST_CLUSTERS

EXPERIMENTS = ("kernel.reclaim", "kernel.reclaim-wall")
OWN = POLICIES[0]
WORDS = {
    "own": "the kernel's own two lists",
    "reclaim-active": "what would be activated is reclaimed",
    "reclaim-referenced": "references do not count",
    "mglru": "the multi-generational LRU",
}
FAULTS = q.Quantity("page faults", "", lambda point: q.metric(point, "minflt") + q.metric(point, "majflt"))
COUNTED = (
    FAULTS,
    q.plain("minor faults (minflt)", "minflt"),
    q.plain("major faults (majflt)", "majflt"),
    q.plain("pages read from swap", "swap_ins"),
    q.plain("pages written to swap", "swap_outs"),
    q.plain("refaults, anonymous", "refaults_anon"),
    q.plain("refaults, file", "refaults_file"),
    q.plain("pages activated", "activations"),
    q.plain("pages scanned", "scanned"),
    q.plain("pages reclaimed", "reclaimed"),
)
WHAT = (
    "All policies are settings of one kernel, measured in each boot in an order drawn anew. The walk and a "
    "competitor, which touches pages at random, alternate in a group whose limit is less than both want, so "
    "that the order of accesses is the same under every policy."
)
COVERED = (
    "Faults are those of the walk; other counts are the whole machine's. The boots differ in the order of "
    "the points, which is drawn from the run's seed: intervals and verdicts say nothing of another walk."
)
COUNTS_NOTE = "Medians with their 95 % intervals; what is the same in every boot stands alone. {meaning}."
RATIOS_NOTE = (
    "Ratios paired by boot, p corrected (Holm) for all rows and policies. Counts that are the same in every "
    "boot are compared as they are."
)
SHARED = "Reclaim unmaps a shared file's dirty pages without writing them: more reclaim, more such faults."


class View(NamedTuple):
    """One experiment at one mapping: its quantities and how each policy compares with the kernel's own."""

    run: q.Run
    """Its points with this mapping."""
    mapping: str
    quantities: tuple[q.Quantity, ...]
    rows: dict[str, list[q.ComparedMetric]]

    @property
    def clock(self) -> str:
        """Whether it counted instructions or measured time."""
        return "instructions" if self.run.experiment.clock == "instructions" else "time"

    @property
    def patterns(self) -> list[str]:
        """The patterns that were measured."""
        return list(dict.fromkeys(str(point.factors["pattern"]) for point in q.shown(self.run.experiment)))

    def of(self, quantity: q.Quantity, policy: str, pattern: str) -> q.Summary | None:
        """Return a quantity under a policy, where it is known."""
        point = q.first(self.run.experiment, policy=policy, pattern=pattern)
        return quantity.summary(self.run.experiment, point)

    def verdict(self, policy: str, quantity: q.Quantity, pattern: str) -> q.Verdict | None:
        """Return how a quantity under `policy` compares with that under the kernel's own, where known.

        Fewer boots than `FEWEST_CLUSTERS` decide nothing, however alike: they have seen few orders.
        """
        own, other = (self.of(quantity, each, pattern) for each in (OWN, policy))
        if own is None or other is None:
            return None
        row = q.row_of(self.rows[policy], quantity, pattern=pattern)
        found = q.judge(own, other, row, exact=clocks.step(quantity.name, quantity.unit, 1) <= 1)
        few = min(own.blocks, other.blocks) < FEWEST_CLUSTERS
        return found._replace(different="cannot tell") if found and few else found


def _views(run: q.Run, mapping: str) -> list[View]:
    found = []
    for own in (each.only(mapping=mapping) for each in run.all(*EXPERIMENTS)):
        if q.shown(own.experiment):
            quantities = (*COUNTED, *_costs(own.experiment))
            ends = [(OWN, policy) for policy in POLICIES[1:]]
            compared = q.family(own.experiment, quantities, "policy", ends)
            rows = {str(policy): row for (_, policy), row in compared.items()}
            found.append(View(own, mapping, quantities, rows))
    return found


def _costs(experiment: q.ExperimentResults) -> list[q.Quantity]:
    parts = (("the walk, with the competitor's turns", "time_s"), ("the walk's own process", "cpu_s"))
    found = []
    for name, metric in parts:
        key = clocked.known_name(experiment, metric)
        if key is not None:
            what, unit = "time" if key == metric else "instructions", experiment.metrics[key].unit
            # By the metric's name at the end `clocks.step` knows that it counts in larger steps.
            ending = f" ({key})" if clocks.step(key, unit, 1) > 1 else ""
            found.append(q.plain(f"{what} of {name}{ending}", key, unit))
    return found


def _headline(_: q.Run, views: Sequence[View]) -> str:
    view, pattern = views[0], views[0].patterns[0]
    base = view.of(FAULTS, OWN, pattern)
    found = ((policy, view.verdict(policy, FAULTS, pattern)) for policy in POLICIES[1:])
    apart = [(policy, each.ratio) for policy, each in found if each and each.different == "yes"]
    if base is None:
        return "The kernel's own policy was not measured, so that nothing is compared with it."
    text = q.brackets(f"The kernel's own policy has {q.figure(base, '')} page faults")
    if not apart:
        return f"{text}; no difference from it was found."
    policy, ratio = apart[0]
    return f"{text}; {policy} has {q.brackets(ratio)} times as many."


def _tables(view: View, pattern: str) -> list[q.Table]:
    policies = [each for each in POLICIES if q.first(view.run.experiment, policy=each, pattern=pattern)]
    shown = [each for each in view.quantities if any(view.of(each, policy, pattern) for policy in policies)]

    def value(policy: str) -> q.Column[q.Quantity]:
        return q.text(policy, lambda each: q.figure_text(view.of(each, policy, pattern), each.unit))

    def against(policy: str) -> q.Column[q.Quantity]:
        return q.ratio(f"{policy} / {OWN}", lambda each: view.verdict(policy, each, pattern), "different")

    where = f"{view.mapping} mapping, {pattern}, by {view.clock}"
    meaning = "; ".join(f"{policy}: {WORDS[policy]}" for policy in policies)
    name: q.Column[q.Quantity] = q.text("", lambda each: each.name)
    counts = q.TableOf(f"Counts under each policy: {where}", name, *map(value, policies), note=COUNTS_NOTE)
    others = (policy for policy in policies if policy != OWN)
    ratios = q.TableOf(
        f"Against the kernel's own policy: {where}", name, *map(against, others), note=RATIOS_NOTE
    )
    return [counts.of(shown, meaning=meaning), ratios.of(shown)]


def _figure(view: View) -> q.Figure:
    every = (
        (pattern, policy, view.of(FAULTS, policy, pattern))
        for pattern, policy in product(view.patterns, POLICIES)
    )
    rows = [(pattern, policy, faults) for pattern, policy, faults in every if faults is not None]
    note = "Medians with their 95 % intervals; where none is seen, it is narrower than the dot."
    title = f"Page faults under each policy: {view.mapping} mapping, by {view.clock}"
    return q.dots(title, "faults", rows, note=note)


def _question(mapping: str) -> q.Question[View]:
    return q.Question(
        title=f"Reclaim policies: {mapping} mapping",
        experiment=EXPERIMENTS,
        rows=lambda run: _views(run, mapping),
        headline=_headline,
        text=(
            *(WHAT, COVERED, *([SHARED] if mapping == "shared" else [])),
            lambda _, views: clocked.conditions(view.run.experiment for view in views),
        ),
        tables=lambda _, views: [
            table for view in views for pattern in view.patterns for table in _tables(view, pattern)
        ],
        figures=lambda _, views: map(_figure, views),
        missing=lambda run: q.joined(
            *(q.reasons(each.experiment, mapping=mapping) for each in run.all(*EXPERIMENTS))
        ),
    )


sections = tuple(map(_question, MAPPINGS))
