"""Steps in a series whose runs are autocorrelated: the evidence for one, and the autocorrelation r.

The model is a level, or one with a step or two more, and deviations that follow an AR(1) process with an
unknown coefficient r of 0 to 0.9: a run's deviation is r times that of the run before, and something new. A
level that wanders looks much like one that steps, so both are estimated together.

- The evidence is a Bayes factor: the restricted likelihood (Harville, Journal of the American Statistical
  Association 72, 1977) with steps over that without, both averaged over r and over the places of the steps,
  all scales being alike. Tests of such averages have the highest average power (Andrews and Ploberger,
  Econometrica 62, 1994), and without a step it depends much less on r than F does.
- Two steps are in it because a level that steps up and down again is, to a model with one step, a level that
  wanders.
- r is estimated by its posterior mean, whose bias is large in short series (Kendall, Biometrika 41, 1954). So
  it is compared with the estimates from simulated series of the same length, of known r: that r at which half
  of them are smaller is the median-unbiased estimate (Andrews, Econometrica 61, 1993).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, pairwise

import numpy as np

from oscope.model.samples import Floats, Ints

GRID = np.linspace(0, 0.9, 7)
"""Coefficients over which likelihoods are averaged, all with the same weight."""
SECOND_STEP = 0.1
"""Weight of models with two steps. Simulated: less of it misses short episodes, more of it single steps."""
MOST_PLACES = 40
"""Places between which pairs of steps are looked for, the time for which grows with their square."""
SIMULATED = 500
"""Series for each coefficient that the estimate is compared with."""
_SEED = 20_240_301
_KEPT = 64
"""Layouts whose matrices are kept."""
_SMALL = 2**18
"""Multiplications up to which OpenBLAS uses one thread (`interface/gemm.c`)."""


@dataclass(frozen=True)
class Layout:
    """Where the values of a series are, and where its level may step."""

    gaps: tuple[int, ...]
    """Runs from each value to the next: 1 where none is missing."""
    edges: tuple[int, ...]
    """Indices of values, in order, at which steps are known."""
    shortest: int
    """Values between two steps at least."""

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.gaps) + 1

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Begin and end of the parts between the known steps."""
        return list(pairwise((0, *self.edges, self.size)))

    @property
    def steps(self) -> tuple[int, ...]:
        """Indices of values at which the level may step once more."""
        reach = self.shortest
        return tuple(at for begin, end in self.parts for at in range(begin + reach, end - reach + 1))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of steps, as places in `steps`."""
        steps = self.steps
        places = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), MOST_PLACES)).round().astype(int))
        return [(a, b) for a, b in combinations(places.tolist(), 2) if steps[b] - steps[a] >= self.shortest]

    def whitening(self, r: float) -> Floats:
        """Return the matrix that makes AR(1) values of variance 1 uncorrelated, still of variance 1."""
        kept = r ** np.array(self.gaps, dtype=float)
        new = np.sqrt(1 - kept**2)
        return np.asarray(np.diag(np.append(1.0, 1 / new)) - np.diag(kept / new, -1))

    def innovations(self, values: Floats, r: float) -> Floats:
        """Return what is new in each value, scaled to the values' variance."""
        return np.asarray(self.whitening(r) @ values)

    def from_innovations(self, rows: Floats, r: float) -> Floats:
        """Return the AR(1) series of each row of innovations."""
        if r == 0:
            return rows
        place = np.append(0, np.cumsum(self.gaps))
        new = np.append(1.0, np.sqrt(1 - r ** (2 * np.array(self.gaps, dtype=float))))
        # The inverse of `whitening`: of an innovation, r to the power of its age is left.
        kept = np.tril(r ** np.maximum(place[:, None] - place[None, :], 0)) * new
        return _product(rows, kept.T)

    def residuals(self, values: Floats) -> Floats:
        """Return the values less the mean of their part."""
        return np.concatenate([values[begin:end] - values[begin:end].mean() for begin, end in self.parts])


@dataclass(frozen=True)
class Evidence:
    """What rows of values say about further steps, a row each."""

    factor: Floats
    """Logarithm of the Bayes factor for a step or two; -inf where nothing varies."""
    steps: Ints
    """Indices of the values at which the most likely model steps; the second is -1 where it is one step."""
    single: Ints
    """The first of them, of the models with one step."""
    r: Floats
    """Posterior mean of the coefficient, with steps."""


class Model:
    """The likelihoods of a layout that has places for a step."""

    def __init__(self, layout: Layout) -> None:
        """Prepare a matrix for each coefficient, from which sums of squares follow."""
        self.layout = layout
        self._first, self._second = np.array(layout.pairs, dtype=int).reshape(-1, 2).T
        single = len(layout.steps)
        # Averages over places; the normalisation keeps factors of short and long series alike.
        pair = np.log(SECOND_STEP / max(1, len(self._first)))
        self._prior = np.append(np.full(single, -np.log(single)), np.full(len(self._first), pair))
        self._parts = [self._part(float(r)) for r in GRID]

    def _part(self, r: float) -> tuple[Floats, float, Floats]:
        """Return what gives residuals and steps, and the constants of the logarithmic likelihoods."""
        layout, index = self.layout, np.arange(self.layout.size)
        white = layout.whitening(r)
        basis, triangle = np.linalg.qr(white @ (index[:, None] >= np.array((0, *layout.edges))))
        residual = white - basis @ (basis.T @ white)
        steps = residual @ (index[:, None] >= np.array(layout.steps))
        length = np.linalg.norm(steps, axis=0)
        first = steps / length
        second = steps[:, self._second]
        second = second - first[:, self._first] * (first[:, self._first] * second).sum(axis=0)
        beside = np.linalg.norm(second, axis=0)
        constant = float(np.log(np.diag(white)).sum() - np.log(np.abs(np.diag(triangle))).sum())
        sizes = np.append(np.log(length), np.log(length[self._first]) + np.log(beside))
        matrix = np.hstack([residual.T, residual.T @ first, residual.T @ (second / beside)])
        return matrix, constant, constant - sizes + self._prior

    def evidence(self, rows: Floats, floor: float) -> Evidence:
        """Return the evidence for steps in each row; `floor` is a sum of squares that counts as 0."""
        size, single = self.layout.size, len(self.layout.steps)
        dof = size - len(self.layout.parts)
        without = np.empty((len(GRID), len(rows)))
        stepped = np.empty((len(GRID), len(rows), len(self._prior)))
        for index, (matrix, constant, constants) in enumerate(self._parts):
            found = _product(rows, matrix) ** 2
            squares = found[:, :size].sum(axis=1)
            if index == 0:
                varies = squares > floor
            without[index] = constant - dof / 2 * np.log(np.maximum(squares, floor))
            left = stepped[index]
            np.subtract(squares[:, None], found[:, size : size + single], out=left[:, :single])
            np.subtract(left[:, self._first], found[:, size + single :], out=left[:, single:])
            np.log(np.maximum(left, floor, out=left), out=left)
            left *= -dof / 2
            left += constants
        top, least = stepped.max(axis=(0, 2)), without.max(axis=0)
        stepped -= top[:, None]
        by_model = np.exp(stepped, out=stepped).sum(axis=0)
        by_r = stepped.sum(axis=2)
        total = by_r.sum(axis=0)
        factor = np.log(total) + top - np.log(np.exp(without - least).sum(axis=0)) - least
        single_step = np.array(self.layout.steps)[by_model[:, :single].argmax(axis=1)]
        steps = self._most_likely(by_model, single_step)
        return Evidence(np.where(varies, factor, -np.inf), steps, single_step, GRID @ by_r / total)

    def _most_likely(self, weight: Floats, single_step: Ints) -> Ints:
        """Return the steps of each row's most likely model."""
        steps, single = np.array(self.layout.steps), len(self.layout.steps)
        found = np.full((len(weight), 2), -1)
        found[:, 0] = single_step
        if len(self._first):
            pair = weight[:, single:].argmax(axis=1)
            both = np.column_stack([steps[self._first[pair]], steps[self._second[pair]]])
            is_pair = weight[:, single:].sum(axis=1) > weight[:, :single].sum(axis=1)
            found[is_pair] = both[is_pair]
        return found

    @cached_property
    def _simulated(self) -> Floats:
        """Estimates from simulated normal series without a further step, sorted, a row a coefficient."""
        white = np.random.default_rng(_SEED).normal(size=(SIMULATED, self.layout.size))
        floor = float(np.finfo(float).tiny)
        rows = [self.evidence(self.layout.from_innovations(white, float(r)), floor).r for r in GRID]
        return np.sort(np.array(rows), axis=1)

    def coefficient(self, r: float, share: float) -> float:
        """Return the coefficient at which `share` of simulated estimates are at most `r`.

        A `share` of 0.5 gives the median-unbiased estimate, a smaller one an upper confidence limit.
        """
        at = np.maximum.accumulate(np.quantile(self._simulated, share, axis=1))
        return float(np.interp(r, at, GRID))

    def is_autocorrelated(self, r: float) -> bool:
        """Say whether so large an estimate comes from independent runs in fewer than 5 % of simulations."""
        return bool(r > np.quantile(self._simulated[0], 0.95))


def _product(rows: Floats, matrix: Floats) -> Floats:
    """Return the matrix product, in pieces so small that the library starts no threads.

    On a machine with other work these wait for each other: 25 times as long was measured.
    """
    step = max(1, _SMALL // matrix.size)
    found = np.empty((len(rows), matrix.shape[1]))
    for start in range(0, len(rows), step):
        np.matmul(rows[start : start + step], matrix, out=found[start : start + step])
    return found


@lru_cache(maxsize=_KEPT)
def model(layout: Layout) -> Model:
    """Return the model of a layout, a new one only if it was not used lately."""
    return Model(layout)
