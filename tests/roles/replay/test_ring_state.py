"""Rings of a checkpoint that are dealt out to other GMIs."""

import pytest
import torch

from gmi_drl.replay import Field, MinSize, Prioritized, Ring, Signature, Uniform
from gmi_drl.roles.replay.ring_state import deal_anew, ring_tensors

SIGNATURE = Signature((Field("obs", (1,)), Field("reward"), Field("terminated", (), torch.bool)))


def ring_of(num_env, steps, sampler=Uniform):
    return Ring(SIGNATURE, num_env, steps, sampler=sampler(), limiter=MinSize(1), seed=1)


def parts_of(num_envs, steps, added):
    """Checkpoints of GMIs that added as many steps; an observation is 100 x the environment + the step."""
    parts, first = [], 0
    for num_env in num_envs:
        ring = ring_of(num_env, steps)
        for step in range(added):
            seen = 100.0 * torch.arange(first, first + num_env) + step
            never = torch.zeros(num_env, dtype=torch.bool)
            ring.add({"obs": seen[:, None], "reward": seen, "terminated": never}, never, ~never)
        parts.append({"episode": torch.zeros(2, num_env), **ring_tensors(ring)})
        first += num_env
    return parts


def drawn(ring):
    batch = ring.sample(400)
    assert torch.equal(batch.fields["next/obs"], batch.fields["obs"] + 1)
    return sorted(set(batch.fields["obs"].flatten().int().tolist()))


@pytest.mark.parametrize("sampler", [Uniform, Prioritized])
@pytest.mark.parametrize("added", [4, 6, 15])
@pytest.mark.parametrize(("before", "now"), [((4,), (2, 2)), ((2, 2), (4,)), ((1, 3), (3, 1)), ((1, 1, 2), (2, 2))])
def test_each_ring_gets_the_steps_of_its_environments(before, now, added, sampler):
    parts, first = parts_of(before, 6, added), 0
    oldest = max(0, added - 6)
    for num_env in now:
        ring = ring_of(num_env, 6, sampler)
        deal_anew(ring, iter(parts), first)
        own = [100 * env + step for env in range(first, first + num_env) for step in range(oldest, added - 1)]
        assert drawn(ring) == own, "all but the last steps, after which nothing is known"
        first += num_env
        added_now = torch.zeros(num_env, dtype=torch.bool)
        for _ in range(2):
            ring.add(
                {"obs": torch.ones(num_env, 1), "reward": torch.ones(num_env), "terminated": added_now},
                added_now,
                ~added_now,
            )
        batch = ring.sample(400)
        last = batch.fields["obs"].flatten() % 100 == added - 1
        assert not (last & (batch.fields["obs"].flatten() != 1)).any(), "the last step before has no next one"


def test_smaller_rings_keep_the_newest():
    ring = ring_of(4, 3)
    deal_anew(ring, parts_of((2, 2), 8, 8), 0)
    assert drawn(ring) == [100 * env + step for env in range(4) for step in (5, 6)]


def test_without_saved_rings_it_stays_empty():
    ring = ring_of(2, 3)
    deal_anew(ring, [{"episode": torch.zeros(2, 2)}], 0)
    assert ring.written == 0
