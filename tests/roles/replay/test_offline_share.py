"""DQN and SAC that learn from recorded episodes besides."""

from dataclasses import replace

import pytest
import torch
from roles.replay.line_task import STEPS, Line
from roles.replay.test_replay_replica import CPU, N, go_on, replica_of, settings, states
from roles.sequence.line_episodes import walked, walks

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import SACConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.replay import import_episodes
from gmi_drl.roles.replay.offline_share import OfflineShare
from gmi_drl.roles.replay.replica import ReplayReplica
from gmi_drl.roles.training.evaluation import play_episodes
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import categorical


@pytest.mark.parametrize("kind", ("dqn", "sac"))
@pytest.mark.parametrize("more", ({}, {"sampler": "prioritized", "n_step": 3, "next_obs": "twice"}))
def test_a_share_of_each_batch_is_recorded(tmp_path, kind, more):
    """Batches are compared with what the episodes and the ring have: only recorded walks begin at the same places."""
    data = walked(tmp_path / "a.replay", chooses=kind == "dqn")
    replica = replica_of(settings(kind, {"data": data, "offline_share": 0.25} | more))
    learner, drawn = replica.learner, []
    update = learner.updater.update

    def noted(batch, weights=None):
        drawn.append(({name: value.clone() for name, value in batch.fields.items()}, len(batch.keys), weights))
        return update(batch, weights)

    learner.updater.update = noted
    for _ in range(4):
        replica.iterate(go_on)
    recorded = {tuple(row.tolist()) for row in learner.offline.windows._episodes.storage.rows.fields["obs"]}
    assert len(drawn) > 5
    for fields, keys, weights in drawn:
        assert keys == 6 and len(fields["obs"]) == 8
        assert all(tuple(row.tolist()) in recorded for row in fields["obs"][6:])
        assert not all(tuple(row.tolist()) in recorded for row in fields["obs"][:6])
        assert weights is None or weights.shape == (8,)


def test_recorded_actions_are_within_the_limits_of_the_task(tmp_path):
    """A policy's samples may be beyond them; choices stay as they are."""
    for chooses, expected in ((False, 1.0), (True, 2.0)):
        episodes = [one | {"action": 2 * one["action"]} for one in walks(1, 0, chooses=chooses)]
        import_episodes(episodes, tmp_path / f"{chooses}.replay")
        kind = "dqn" if chooses else "sac"
        config = settings(kind, {"data": str(tmp_path / f"{chooses}.replay"), "offline_share": 1.0})
        spec = Line(1, chooses=False).spec if not chooses else replace(Line(1).spec, action=categorical(3))
        share = OfflineShare(spec, config, NoReduction().group, CPU, seed=0)
        assert share.draw(None, 8, None)[1].fields["action"].unique().tolist() == [expected]


@pytest.mark.parametrize(("kind", "sampler"), [("dqn", "prioritized"), ("sac", "uniform")])
def test_all_of_a_batch_can_be_recorded(tmp_path, kind, sampler):
    """Walks up are learnt from walks that others went."""
    data = walked(tmp_path / "a.replay", good=4, bad=28, chooses=kind == "dqn")
    replay = {"data": data, "offline_share": 1.0, "sampler": sampler}
    replica = replica_of(settings(kind, replay, gamma=0.9, updates_per_step=8.0))
    for _ in range(8):
        replica.iterate(go_on)
    _, returns, lengths = play_episodes(Line(8, chooses=kind == "dqn", seed=9), replica.policy()).tolist()
    assert returns / 8 > 45 and lengths == 8 * STEPS


def test_what_goes_on_from_a_checkpoint_draws_the_same(tmp_path):
    data = walked(tmp_path / "a.replay")
    replica = replica_of(settings("sac", {"data": data}))
    for _ in range(4):
        replica.iterate(go_on)
    learner = {name: tensor.clone() for name, tensor in replica.learner_state().items()}
    local = {name: tensor.clone() for name, tensor in replica.local_state().items()}
    other = replica_of(settings("sac", {"data": data}))
    other.load_learner_state(learner)
    other.load_local_state(local)
    for one in (replica, other):
        one.iterate(go_on)
    before, after = states(replica), states(other)
    assert [name for name in before if not torch.equal(before[name], after[name])] == []


def test_episodes_of_another_task_are_refused(tmp_path):
    learner = SACConfig(replay=ReplaySettings(data=walked(tmp_path / "a.replay")))
    with pytest.raises(UsageError, match=r"has obs float32\[2\], ant has obs float32\[60\]"):
        sizes = {"num_env": N, "group_num_env": N}
        ReplayReplica(TASK_SPECS["ant"], RunConfig(learner=learner), NoReduction(), device=CPU, seed=0, **sizes)
