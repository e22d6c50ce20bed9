"""The one exchange of an iteration: what all GMIs that learn from rings must know alike."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.comm.group import Group
from gmi_drl.replay import Ring
from gmi_drl.roles.replay.server_ring import ServerRing
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats

NUM_FACTS = 4
"""Numbers that GMIs know of each other's rings."""


@dataclass(frozen=True)
class Rings:
    """What is known of the rings of all GMIs.

    Args:
        are_ready: Whether every one can be sampled.
        share: This ring's part of the weights of all, by which its means count.
        windows: In all rings.
        largest: Importance weight of the last iteration's updates, before it was made 1; 1 before the first.
    """

    are_ready: bool
    share: float
    windows: float
    largest: float

    def metrics(self) -> dict[str, float]:
        """What a row has of them."""
        return {"replay_steps": self.windows}


def exchange(
    group: Group, decision: Decision, sums: Tensor, ring: Ring | ServerRing, largest: Tensor, batch: int, delta: Tensor
) -> tuple[IterationStats, Rings]:
    """Exchange the statistics of each GMI's iteration. Waits for the device, once.

    Args:
        group: The GMIs that train together; all call this.
        decision: Of this GMI; only rank 0's counts.
        sums: As `Rollout.sums`, float64 `[5 + K]`, of the same length on all GMIs.
        ring: Of this GMI.
        largest: Its largest importance weight since the last exchange, float64 `[]`; 0 if there was none.
        batch: Steps that it draws for an update.
        delta: Of the normaliser, float64 `[D]`; D is 0 without one.
    """
    known, on_device = facts_of(ring, largest, batch)
    head = torch.cat((torch.tensor([float(decision)], dtype=torch.float64), known))
    table = group.gather(torch.cat((head, torch.cat((on_device, sums, delta)).cpu())))
    decisions, facts, all_sums, deltas = torch.split(table, [1, NUM_FACTS, len(sums), len(delta)], dim=1)
    rings = rings_of(facts, group.rank)
    stats = IterationStats.from_sums(decisions[0].item(), all_sums.sum(0), deltas, metrics=rings.metrics())
    return stats, rings


def facts_of(ring: Ring | ServerRing, largest: Tensor, batch: int) -> tuple[Tensor, Tensor]:
    """What others must know of a ring, float64: two numbers on the host, and two on the device. See `exchange`."""
    known = torch.tensor([float(ring.can_sample(batch)), ring.windows], dtype=torch.float64)
    return known, torch.stack((ring.mass(), largest))


def rings_of(facts: Tensor, rank: int) -> Rings:
    """What is known of all rings, by the `facts_of` each, `[ranks, NUM_FACTS]`, for the GMI with this rank."""
    ready, windows, mass, largest = facts.unbind(1)
    total = float(mass.sum())
    share = float(mass[rank]) / total if total else 1 / len(mass)
    return Rings(bool(ready.all()), share, float(windows.sum()), float(largest.max()) or 1.0)
