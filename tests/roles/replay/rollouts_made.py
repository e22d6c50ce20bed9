"""Rollouts for tests of rings of rollouts: steps that tell by themselves where they are from."""

import torch

from gmi_drl.algo.experience_batch import ReplayBatch
from gmi_drl.layout.experience import FACTS, RolloutForm

CPU = torch.device("cpu")


def made(form: RolloutForm, versions, *, done=(), terminated=(), bad=()) -> ReplayBatch:
    """A batch whose observation of step t of world w of rollout r is `1000 r + 100 w + t + 10_000 version`.

    Args:
        form: Of observations `[1]` or more.
        versions: Of each rollout.
        done: Steps `(r, t, w)` that end an episode, after which the observation is `-` what it would be.
        terminated: Those of them that end by the task itself.
        bad: Steps that are no transitions.
    """
    batch = ReplayBatch.empty(form, len(versions), CPU)
    rollouts, horizon, num_env = batch.reward.shape
    r, t, w = torch.meshgrid(*map(torch.arange, (rollouts, horizon + 1, num_env)), indexing="ij")
    place = 1000.0 * r + 100 * w + t + 10_000 * torch.tensor(versions)[:, None, None]
    batch.obs[:] = place[:, :-1, :, None]
    batch.last_obs[:] = place[:, -1, :, None]
    batch.reward[:] = place[:, :-1] / 7
    batch.valid.fill_(1.0)
    for at in done:
        batch.done[at] = 1
    for at in terminated:
        batch.terminated[at] = 1
    for at in bad:
        batch.valid[at] = 0
    if batch.next_obs is not None:
        batch.next_obs[:] = place[:, 1:, :, None]
        for at in done:
            batch.next_obs[at] = -place[:, 1:][at]
    batch.facts[:, FACTS.index("version")] = torch.tensor(versions, dtype=torch.float64)
    return batch
