"""The one exchange of an iteration: what all GMIs that learn from rings must know alike."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.comm.group import Group
from gmi_drl.replay import Ring
from gmi_drl.roles.replay.server_ring import ServerRing
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats


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
    is_ready = ring.can_sample(batch)
    known = torch.tensor([float(decision), float(is_ready), ring.windows], dtype=torch.float64)
    on_device = torch.cat((torch.stack((ring.mass(), largest)), sums, delta)).cpu()
    table = group.gather(torch.cat((known, on_device)))
    decisions, ready, windows, mass, most = table[:, :5].unbind(1)
    all_sums, deltas = torch.split(table[:, 5:], [len(sums), len(delta)], dim=1)
    total, largest_of_all = float(mass.sum()), float(most.max())
    share = float(mass[group.rank]) / total if total else 1 / group.size
    rings = Rings(bool(ready.all()), share, float(windows.sum()), largest_of_all or 1.0)
    stored = {"replay_steps": float(windows.sum())}
    stats = IterationStats.from_sums(decisions[0].item(), all_sums.sum(0), deltas, metrics=stored)
    return stats, rings
