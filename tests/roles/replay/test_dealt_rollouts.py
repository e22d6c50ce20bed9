"""Rings of rollouts that are dealt out to other trainers: all steps are there, and no window has steps of two rows."""

from hashlib import sha256
from types import SimpleNamespace

import pytest
import torch
from roles.replay.rollouts_made import made
from roles.replay.test_channel_learner import Pair, settings
from roles.replay.test_ring_state import parts_of

from gmi_drl.layout.experience import RolloutForm
from gmi_drl.replay import Field, Prioritized, Ring, Signature, Uniform
from gmi_drl.roles.replay.dealt_rollouts import deal_rollouts
from gmi_drl.roles.replay.ring_state import deal_anew, ring_tensors
from gmi_drl.roles.replay.rollouts import VERSION, add_rollouts
from gmi_drl.roles.replay.trainer import ReplayTrainer
from gmi_drl.run.checkpoint import write_part
from gmi_drl.workload.spaces import continuous, vector

T, N = 4, 2
FIELDS = (Field("obs", (1,)), Field("action", (2,)), Field("reward"), Field("terminated", (), torch.bool), VERSION)


def ring_of(rollouts, steps, next_obs="once", n_step=1, sampler=None):
    return Ring(Signature(FIELDS), rollouts * N, steps, n_step=n_step, next_obs=next_obs, sampler=sampler or Uniform())


def trained(trainers, rollouts, steps, updates, next_obs="once"):
    """The checkpoint's parts of trainers that got as many updates' rollouts; all observations differ."""
    form, parts = RolloutForm(T, N, vector(1), continuous(2), next_obs=next_obs), []
    for trainer in range(trainers):
        ring = ring_of(rollouts, steps, next_obs)
        for update in range(updates):
            add_rollouts(ring, made(form, [10 * trainer + update] * rollouts))
        parts.append({"learner_generator": torch.zeros(1), **ring_tensors(ring)})
    return parts


def drawn(ring):
    """What can be drawn: the first step's observations, each of whose windows is within a rollout."""
    batch = ring.sample(2000)
    first, following = batch.fields["obs"].flatten(), batch.fields["next/obs"].flatten()
    assert torch.equal(following, first + ring.n_step) and batch.fields["discount"].unique().numel() == 1
    assert torch.equal(batch.fields[VERSION.name], (first / 10_000).int())
    return set(first.int().tolist())


def all_of(trainers, rollouts, updates):
    places = [(10 * trainer + update, r) for trainer in range(trainers) for update in updates for r in range(rollouts)]
    return {10_000 * v + 1000 * r + 100 * w + t for v, r in places for w in range(N) for t in range(T)}


@pytest.mark.parametrize("sampler", [Uniform(), Prioritized(1.0)], ids=str)
@pytest.mark.parametrize("next_obs", ["once", "twice"])
@pytest.mark.parametrize(("before", "now"), [((2, 1), (1, 2)), ((1, 2), (2, 1)), ((1, 3), (1, 3)), ((2, 3), (3, 2))])
def test_with_as_many_environments_each_keeps_its_steps(before, now, next_obs, sampler):
    parts, found = trained(*before, 15, 3, next_obs), set()
    trainers, rollouts = now
    for trainer in range(trainers):
        ring = ring_of(rollouts, 15, next_obs, sampler=sampler)
        deal_rollouts(ring, lambda: parts, trainer * ring.num_env, trainers * ring.num_env)
        own = drawn(ring)
        assert not own & found
        found |= own
    wanted = all_of(*before, range(3))
    if next_obs == "once":
        assert found == wanted, "behind the newest rollout is a row at which no window begins"
    else:
        assert found == {obs for obs in wanted if obs % 100 < T - 1 or obs // 10_000 % 10 < 2}, "but for the newest row"


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize(("before", "now"), [((1, 3), (1, 2)), ((1, 2), (1, 3)), ((2, 1), (1, 5)), ((3, 2), (2, 2))])
def test_with_another_number_no_window_crosses_from_one_into_the_next(before, now, n_step):
    parts, found, rows = trained(*before, 30, 4), set(), 0
    trainers, rollouts = now
    for trainer in range(trainers):
        ring = ring_of(rollouts, 60, n_step=n_step)
        deal_rollouts(ring, lambda: parts, trainer * ring.num_env, trainers * ring.num_env)
        own = drawn(ring)
        assert not own & found
        found, rows = found | own, rows + ring.written * ring.num_env
    former, pieces = before[0] * before[1] * N * 20, trainers * rollouts * N
    assert former - pieces < rows <= former, "all but what does not fill a row of all"
    wanted = {obs for obs in all_of(*before, range(4)) if obs % 100 <= T - n_step}
    assert found <= wanted and len(wanted - found) <= 2 * n_step * (pieces + before[0] * before[1] * N)


def test_smaller_rings_get_the_newest_rollouts():
    parts = trained(1, 2, 40, 6)
    ring = ring_of(1, 10)
    deal_rollouts(ring, lambda: parts, 0, N)
    assert ring.written == 10 and drawn(ring) <= all_of(1, 2, (4, 5))


@pytest.mark.parametrize("parts", [[{}, {}], parts_of((2, 2), 6, 4)], ids=["not saved", "of acting GMIs"])
def test_without_rings_of_rollouts_it_stays_empty(parts):
    ring = ring_of(1, 10)
    deal_rollouts(ring, lambda: parts, 0, N)
    assert ring.written == 0


def test_rings_of_rollouts_are_not_dealt_to_gmis_that_act():
    ring = ring_of(1, 10)
    deal_anew(ring, iter(trained(1, 1, 10, 2)), 0)
    assert ring.written == 0


@pytest.mark.parametrize(("layout", "nodes", "rows"), [("another", 1, 18), ("own", 1, 0), ("another", 2, 0)])
def test_a_trainer_begins_with_its_share_on_another_layout_of_one_host(tmp_path, layout, nodes, rows):
    before, now = (Pair(settings("sac", {})) for _ in range(2))
    for _ in range(3):
        before.learn(before.play())
    part = write_part(tmp_path, "gmi-2", before.learner.local_state())
    parts = {part.name: sha256(part.read_bytes()).hexdigest(), "learner.safetensors": ""}
    trainer = object.__new__(ReplayTrainer)
    trainer.mgr = SimpleNamespace(layout=SimpleNamespace(digest="own", nodes=(None,) * nodes))
    trainer.checkpointer = SimpleNamespace(restore=lambda replica, saved, index: None)
    trainer.replica = SimpleNamespace(learner=now.learner)
    trainer.restore(tmp_path, {"layout": layout, "parts": parts})
    assert now.learner.ring.written == rows
