"""Decomposition of variance over covariates (Shapley values of R²) and processes, from sums kept by cluster.

Collinear covariates are first put into groups, since no data tell them apart and each would dilute the
others.

Sums by cluster make a bootstrap cheap: a resample is a weighted sum of small matrices, whatever the number of
samples.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy

from oscope.model.samples import Floats, Ints

RIDGE = 1e-9
"""Added to the diagonal of correlations, so that collinear covariates share their R² instead of failing."""

COLLINEAR = 0.7
"""Groups whose members' mean |r| reaches this are joined: half of the variance is then common (r² = 0.5)."""


def collinear_groups(columns: Mapping[str, Floats], response: Floats) -> list[tuple[str, ...]]:
    """Group standardised columns by average linkage on 1 - |r|.

    The first member of a group goes most with the standardised response; the others follow likewise.
    """
    towards = {name: abs(float(column @ response)) for name, column in columns.items()}
    names = sorted(columns, key=lambda name: (-towards[name], name))
    if len(names) < 2:
        return [(name,) for name in names]
    table = np.array([columns[name] for name in names])
    distance = np.clip(1 - np.abs(table @ table.T) / table.shape[1], 0.0, 1.0)
    np.fill_diagonal(distance, 0.0)
    tree = scipy.cluster.hierarchy.linkage(
        scipy.spatial.distance.squareform(distance, checks=False), "average"
    )
    groups: dict[int, list[str]] = {}
    for name, label in zip(
        names, scipy.cluster.hierarchy.fcluster(tree, 1 - COLLINEAR, "distance"), strict=True
    ):
        groups.setdefault(int(label), []).append(name)
    return [tuple(group) for group in groups.values()]


@dataclass(frozen=True)
class Moments:
    """Sums by cluster: products of [1, covariates, response], and what the covariates leave."""

    products: Floats
    """Clusters x (c + 2) x (c + 2)."""
    residual: Floats
    """Clusters x 4: residual variation between blocks, within blocks, and the degrees of freedom of both."""
    block_size: float
    """Samples a block, as the analysis of variance counts them."""

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return len(self.products)


def moments(response: Floats, design: Floats, cluster: Ints, block: Ints) -> Moments:
    """Sum over clusters, numbered from 0; a cluster is within one block or made of whole ones."""
    count = int(cluster.max()) + 1
    full = np.column_stack([np.ones(len(response)), design])
    remainder = response - full @ np.linalg.lstsq(full, response, rcond=None)[0]
    return Moments(products(response, design, cluster), *_between(remainder, cluster, block, count))


def products(response: Floats, design: Floats, cluster: Ints) -> Floats:
    """Return the sums over each cluster of the products of [1, covariates, response], two by two."""
    count = int(cluster.max()) + 1
    rows = np.column_stack([np.ones(len(response)), design, response])
    rows = rows[np.argsort(cluster, kind="stable")]
    ends = np.cumsum(np.bincount(cluster, minlength=count))[:-1]
    return np.array([part.T @ part for part in np.split(rows, ends)])


def _between(remainder: Floats, cluster: Ints, block: Ints, count: int) -> tuple[Floats, float]:
    """One-way analysis of variance of the remainder by block, its sums kept by cluster."""
    size = np.bincount(block).astype(float)
    mean = np.bincount(block, weights=remainder) / size
    within = (remainder - mean[block]) ** 2
    part = 1.0 / size[block]
    columns = (mean[block] ** 2, within, part, 1.0 - part)
    sums = np.column_stack([np.bincount(cluster, weights=column, minlength=count) for column in columns])
    blocks = len(size)
    block_size = (len(block) - float(size @ size) / len(block)) / max(blocks - 1, 1)
    return sums.astype(float), block_size


def shapley(found: Moments, weights: Floats, later: Sequence[Collection[int]] = ()) -> Floats:
    """Return the covariates' shares of the variance, then the processes', for each row of `weights`.

    `later[j]` are the covariates that may enter only after j; without it, all orders count.
    """
    width = found.products.shape[1]
    total = (weights @ found.products.reshape(found.clusters, -1)).reshape(-1, width, width)
    number = total[:, 0, 0]
    mean = total[:, 0, 1:] / number[:, None]
    covariance = total[:, 1:, 1:] / number[:, None, None] - mean[:, :, None] * mean[:, None, :]
    variance = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 1e-12)
    correlation = covariance / np.sqrt(variance[:, :, None] * variance[:, None, :])
    shares = _gains(correlation, later)
    sums = weights @ found.residual
    degrees = np.maximum(sums[:, 2] - 1.0, 1.0)
    inside = sums[:, 1] / np.maximum(sums[:, 3], 1.0)
    component = (
        np.maximum((sums[:, 0] / degrees - inside) / found.block_size, 0.0)
        if found.block_size
        else 0 * degrees
    )
    process = component / variance[:, -1]
    return np.column_stack([shares, np.minimum(process, 1.0 - np.minimum(shares.sum(axis=1), 1.0))])


def _gains(correlation: Floats, later: Sequence[Collection[int]]) -> Floats:
    """Mean gain in R² of each covariate over the orders of entry; the response is the last row.

    Where some enter only after others, these are the asymmetric Shapley values (Frye, Rowat and Feige,
    NeurIPS 2020): what an origin and its trace explain alike is the origin's.
    """
    count = correlation.shape[1] - 1
    everyone = frozenset(range(count))
    steps = {
        subset: [j for j in sorted(everyone - subset) if _may_enter(j, subset, later)]
        for size in range(count + 1)
        for subset in map(frozenset, combinations(range(count), size))
    }
    # The orders that lead to a subset, and those that go on from it.
    into = {subset: int(not subset) for subset in steps}
    for subset, entering in steps.items():
        for j in entering:
            into[subset | {j}] += into[subset]
    onward = dict.fromkeys(steps, 0) | {everyone: 1}
    for subset, entering in reversed(steps.items()):
        onward[subset] += sum(onward[subset | {j}] for j in entering)
    explained = _explained(correlation)
    gains = np.zeros((len(correlation), count))
    for subset, before in explained.items():
        if not into[subset]:
            continue
        for j in steps[subset]:
            orders = into[subset] * onward[subset | {j}]
            gains[:, j] += orders / into[everyone] * (explained[subset | {j}] - before)
    return np.maximum(gains, 0.0)


def _may_enter(j: int, subset: Collection[int], later: Sequence[Collection[int]]) -> bool:
    return all(i in subset for i, after in enumerate(later) if j in after)


def _explained(correlation: Floats) -> dict[frozenset[int], Floats]:
    """R² of the response on each subset of the covariates.

    Each subset is one more step of elimination from the subset without its last member (the sweep operator:
    Goodnight, The American Statistician 33, 1979).
    """
    count = correlation.shape[1] - 1
    ridge = np.diag([RIDGE] * count + [0.0])
    explained = {frozenset[int](): np.zeros(len(correlation))}
    # The matrices hold the covariates after a subset's last member, and the response, with its effect taken
    # off.
    left = [(frozenset[int](), 0, correlation + ridge)]
    while left:
        subset, first, matrix = left.pop()
        for j in range(first, count):
            row = matrix[:, j - first, :]
            pivot = row[:, j - first, None]
            larger = subset | {j}
            explained[larger] = explained[subset] + row[:, -1] ** 2 / pivot[:, 0]
            after = row[:, j - first + 1 :]
            rest = matrix[:, j - first + 1 :, j - first + 1 :]
            left.append((larger, j + 1, rest - after[:, :, None] * (after / pivot)[:, None, :]))
    return explained
