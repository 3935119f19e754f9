"""Has the processes of interleaved sides measure for another side in each block, as the seed draws it.

A fresh process (see `ProcessChain.retire`) has an address space of its own, but keeps what the kernel
holds of the task: its kernel stack, its task_struct, its table of files. Where these lie in the caches
differs from process to process, and stays for the length of a run: beside a busy neighbour, equal sides that
kept their processes differed by up to 0.4 %. A process that measures for another side in each block takes its
advantage with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oscope.runner.point_runner import PointRunner


class Exchange:
    """The exchange between one block and the next."""

    def __init__(self, sides: Sequence[PointRunner]) -> None:
        self._sides = sides
        self._targets: list[int] | None = None

    def draw(self, source: Sequence[int]) -> None:
        """Draw for which side each process measures in the block after this one, which is not yet begun.

        A process executes what measures next as soon as it has measured.
        """
        programs = [side.chain.path for side in self._sides]
        self._targets = None
        if all(not side.tracing.active and side.chain.can_hand_over(programs) for side in self._sides):
            # The order of the sides in a block has the same source, and is another draw.
            random = np.random.default_rng([*source, len(self._sides)])
            self._targets = [int(target) for target in random.permutation(len(self._sides))]
        for number, side in enumerate(self._sides):
            side.chain.successor = programs[number if self._targets is None else self._targets[number]]

    def carry_out(self) -> None:
        """Give each side the process that was drawn for it, unless one of them executes another program."""
        if self._targets is None:
            return
        held = [side.chain.hand_over() for side in self._sides]
        fits = all(
            each.probe is None or each.program == self._sides[target].chain.path
            for each, target in zip(held, self._targets, strict=True)
        )
        for number, each in enumerate(held):
            self._sides[self._targets[number] if fits else number].chain.go_on_with(each)
