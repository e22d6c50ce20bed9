"""A trainer's learner from replay, whose rollouts an agent of the same process plays."""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from roles.replay.line_task import STEPS, Line

from gmi_drl.algo.experience_batch import ReplayBatch
from gmi_drl.algo.rollout import Rollout
from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.comm.channels import ChannelSizes, create_memory, join_as_agent, join_as_trainer, packed_bytes
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import DQNConfig, SACConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import FACTS
from gmi_drl.roles.decoupled.agent import PolicyFollower
from gmi_drl.roles.decoupled.channel_replica import ChannelReplica
from gmi_drl.roles.decoupled.update_stats import UpdateExchange
from gmi_drl.roles.replay.actor import ReplayActor
from gmi_drl.roles.replay.channel_learner import ReplayChannelLearner
from gmi_drl.roles.replay.experience_agent import ReplayRollouts
from gmi_drl.roles.serving.player import new_agent
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.evaluation import act_of, play_episodes
from gmi_drl.roles.training.iteration_stats import Decision

CPU, N = torch.device("cpu"), 4
SMALL = {"hidden": (16,), "horizon": 5, "batch": 8, "learning_rate": 1e-2}


def settings(kind, replay, **more):
    cls = DQNConfig if kind == "dqn" else SACConfig
    own = {"stream": 8, "target_every": 7, "epsilon_steps": 200} if kind == "dqn" else {"actor_every": 2}
    return cls(**SMALL | own | more, replay=ReplaySettings(**{"size": 400, "min_size": 12} | replay))


class Pair:
    """A learner, and an agent that plays a rollout for each of its updates by its newest policy."""

    def __init__(self, settings, version=0):
        config = RunConfig(learner=settings)
        self.task = Line(N, chooses=isinstance(settings, DQNConfig))
        spec = self.task.spec
        sizes = {"num_env": N, "version": version, "device": CPU, "seed": 3}
        self.learner = ReplayChannelLearner(spec, config, NoReduction(), **sizes)
        self.form = settings.rollout_form(spec, N)
        self.agent, self.vector = new_agent(spec, config, CPU)
        actor = ReplayActor(self.task, self.agent, settings.horizon, torch.Generator().manual_seed(5))
        self.rollouts, self.slot = ReplayRollouts(actor), Slot(Rollout(self.form, CPU))
        self.exchange = UpdateExchange(NoReduction().group, (0,))

    def play(self):
        """The next rollout, by the learner's policy."""
        vector, statistics, exploration = self.learner.published
        self.vector.copy_(vector)
        self.agent.normaliser.load(statistics)
        self.agent.policy.exploration.copy_(exploration)
        steps, clock = [], PhaseClock(CPU)
        clock.start()
        self.rollouts.collect(self.slot, clock, steps.append)
        assert steps == list(range(self.form.horizon))
        batch = ReplayBatch.empty(self.form, 1, CPU)
        for kind in self.form.kinds:
            if kind.name != "facts":
                getattr(batch, kind.name)[0] = getattr(self.slot.rollout, kind.name)
        batch.facts[0, FACTS.index("version")] = self.learner.learner.version
        return batch

    def learn(self, batch):
        told = self.learner.take(batch, 0)
        stats = self.exchange.exchange(Decision.GO_ON, batch, self.learner.learner.version, {}, told=told)
        batch.obs.fill_(torch.nan)  # an agent writes the next rollout there
        self.learner.learn(stats)
        return stats


@pytest.mark.parametrize("kind", ["dqn", "sac"])
@pytest.mark.parametrize("replay", [{}, {"sampler": "prioritized", "n_step": 3, "next_obs": "twice"}])
def test_it_learns_to_walk_up(kind, replay):
    pair = Pair(settings(kind, replay, gamma=0.9, updates_per_step=4.0))
    for _ in range(40):
        pair.learn(pair.play())
    _, returns, lengths = play_episodes(Line(8, chooses=kind == "dqn", seed=9), act_of(pair.learner.agent)).tolist()
    assert returns / 8 > 45 and lengths == 8 * STEPS  # the best is near 57


def test_the_share_of_random_actions_is_published_with_the_policy():
    pair = Pair(settings("dqn", {"min_size": 30}, epsilon_start=0.9, epsilon_end=0.1))
    found = []
    for _ in range(4):
        pair.learn(pair.play())
        found.append(float(pair.agent.policy.exploration))
    assert found == pytest.approx([1, 1, 0.9 - 0.8 * 40 / 200, 0.9 - 0.8 * 60 / 200])  # 20 and then 40 steps are there
    assert pair.learner.metrics()["epsilon"] == pytest.approx(0.9 - 0.8 * 80 / 200)


@pytest.mark.parametrize("next_obs", ["once", "twice"])
def test_the_least_size_counts_steps_and_not_the_rows_behind_rollouts(next_obs):
    pair, updates = Pair(settings("sac", {"min_size": 42, "next_obs": next_obs})), []
    for _ in range(3):  # of 20 steps each
        pair.learn(pair.play())
        updates.append(pair.learner.learner.updater.updates)
    assert updates == [0, 0, 5]


def test_a_batch_without_transitions_is_no_error_where_a_ring_has_others():
    """With a step of each environment, in which all begin an episode."""
    pair = Pair(settings("sac", {"min_size": 20, "next_obs": "twice"}, horizon=1))
    for number in range(12):
        batch = pair.play()
        batch.valid.fill_(float(number != 9))
        pair.learn(batch)
    assert pair.learner.learner.updater.updates == 8


def test_ages_are_of_what_was_drawn():
    pair, ages = Pair(settings("sac", {"min_size": 30}), version=7), []
    for _ in range(3):
        pair.learn(pair.play())
        ages.append({name: value for name, value in pair.learner.metrics().items() if "replay_age" in name})
    assert ages[0] == {}, "nothing is drawn before the least size"
    assert 0 < ages[1]["replay_age_mean"] < 1 == ages[1]["replay_age_max"]
    assert 0 < ages[2]["replay_age_mean"] < 2 == ages[2]["replay_age_max"]
    assert pair.learner.metrics()["replay_steps"] == 4 * (3 * 6 - 1)


@pytest.mark.parametrize("is_normalised", [False, True])
def test_observations_are_scaled_if_that_is_set(is_normalised):
    pair = Pair(settings("sac", {}, normalise=is_normalised))
    before = pair.learner.agent.normaliser.statistics.clone()
    pair.learn(pair.play())
    assert torch.equal(pair.learner.agent.normaliser.statistics, before) != is_normalised


@pytest.mark.parametrize("kind", ["dqn", "sac"])
@pytest.mark.parametrize("replay", [{"n_step": 3}, {"sampler": "prioritized", "next_obs": "twice"}, {"size": 44}])
def test_from_the_same_rollouts_a_resumed_learner_learns_the_same(kind, replay):
    learner = settings(kind, replay, normalise=kind == "sac")
    whole, resumed = Pair(learner), Pair(learner, version=4)
    for number in range(7):
        batch = whole.play()
        if number == 4:
            resumed.learner.load_state_dict(copied(whole.learner.state_dict()))
            resumed.learner.load_local_state(copied(whole.learner.local_state()))
            assert all(map(torch.equal, whole.learner.published, resumed.learner.published))
        if number >= 4:
            resumed.learn(replace(batch, obs=batch.obs.clone()))
        whole.learn(batch)
    for wanted, found in (
        (whole.learner.state_dict(), resumed.learner.state_dict()),
        (whole.learner.local_state(), resumed.learner.local_state()),
        (whole.learner.metrics(), resumed.learner.metrics()),
    ):
        assert wanted.keys() == found.keys()
        assert [
            name for name, value in wanted.items() if not torch.equal(*map(torch.as_tensor, (value, found[name])))
        ] == []


def test_a_rollout_is_what_the_environments_did():
    pair = Pair(settings("dqn", {"next_obs": "twice"}, horizon=2 * STEPS))
    same = Line(N)
    same.episode_length.copy_(pair.task.episode_length)  # staggered
    batch = pair.play()
    for t in range(pair.form.horizon):
        assert torch.equal(batch.obs[0, t], same.obs)
        _, reward, terminated, truncated, info = same.step(batch.action[0, t])
        assert torch.equal(batch.reward[0, t], reward) and torch.equal(batch.next_obs[0, t], info["final_obs"])
        assert torch.equal(batch.terminated[0, t], terminated.float())
        assert torch.equal(batch.done[0, t], (terminated | truncated).float())
    assert torch.equal(batch.last_obs[0], same.obs) and 0 < batch.terminated.sum() < batch.done.sum()
    assert batch.sums[0, :2].tolist() == pytest.approx([float(batch.reward.sum()), float(batch.done.sum())])


def test_each_of_two_trainers_draws_its_part_and_counts_the_steps_of_both():
    two = SimpleNamespace(group=SimpleNamespace(size=2, rank=1), reduce=lambda bucket: None, bucket=torch.zeros)
    pair = Pair(settings("sac", {"min_size": 80}))
    sizes = {"num_env": N, "version": 0, "device": CPU, "seed": 3}
    learner = ReplayChannelLearner(pair.task.spec, RunConfig(learner=settings("sac", {"min_size": 80})), two, **sizes)
    done = []
    for _ in range(2):
        told = learner.take(batch := pair.play(), 0)
        stats = pair.exchange.exchange(Decision.GO_ON, batch, 0, {}, told=told)
        learner.learn(replace(stats, told=torch.stack((told * torch.tensor([1, 3, 3, 1]), told))))
        done.append(learner.learner.updater.updates)
    assert learner.learner.batch == 4 and done == [0, 5], "of 80 steps each trainer needs 40"
    assert learner.learner.updater.share == 0.25 and learner.learner.updater.steps == 2 * 2 * 5 * N
    assert learner.metrics()["replay_steps"] == 4 * learner.ring.windows


def copied(state):
    return {name: tensor.clone() for name, tensor in state.items()}


def test_a_ring_that_is_not_saved_begins_empty():
    first, second = (Pair(settings("sac", {"saved": False})) for _ in range(2))
    for _ in range(3):
        first.learn(first.play())
    assert not any(name.startswith("ring") for name in first.learner.local_state())
    second.learner.load_state_dict(first.learner.state_dict())
    second.learner.load_local_state(first.learner.local_state())
    assert second.learner.ring.written == 0 == second.learner.growth_bytes()
    assert second.learner.published[2] == 0  # the policy has learnt: it acts


@pytest.mark.parametrize(("next_obs", "rows"), [("once", 120), ("twice", 100)])
def test_a_ring_has_its_size_and_least_size_in_steps_of_rollouts(next_obs, rows):
    pair, ready = Pair(settings("sac", {"next_obs": next_obs, "min_size": 41})), []
    assert pair.learner.ring.steps == rows  # of 4 environments, 400 steps
    for _ in range(4):
        pair.learner.take(pair.play(), 0)
        ready.append(pair.learner.ring.can_sample(8))
    assert ready == [False, False, True, True], "two rollouts are 40 steps"


def test_a_checkpoint_becomes_larger_until_the_ring_is_full():
    pair = Pair(settings("sac", {"min_size": 300}))
    told, before = pair.learner.growth_bytes(), bytes_of(pair.learner.local_state())
    for _ in range(21):  # of 6 rows each, in 120
        pair.learn(pair.play())
    grown = bytes_of(pair.learner.local_state()) - before
    assert 0 < grown <= told <= 2 * grown and pair.learner.growth_bytes() == 0


def bytes_of(state):
    return sum(tensor.nbytes for tensor in state.values())


@pytest.mark.parametrize("max_lag", [0, 1])
def test_agents_get_the_room_of_a_batch_before_it_is_learnt_from_unless_they_wait_for_its_version(max_lag):
    pair = Pair(settings("sac", {}))
    form, mailboxes, memory = pair.form, create_mailboxes(range(2)), create_memory()
    sizes = ChannelSizes(form, 1, (0,), (1,), Channels(max_lag=max_lag), packed_bytes(pair.learner.published))
    end, agent = join_as_trainer(memory, mailboxes, 1, sizes, 5.0), join_as_agent(memory, mailboxes, 0, sizes, 5.0)
    exchange = UpdateExchange(NoReduction().group, (0,))
    replica = ChannelReplica(pair.learner, end, exchange, version=0, last=2, publishes=True)
    learn, free = pair.learner.learn, []

    def noted(stats):
        free.append(agent.lease_now() is not None)
        learn(stats)

    pair.learner.learn = noted
    with pytest.raises(UsageError, match="take one first"):
        end.give_back(is_learnt=False)
    for _ in range(max_lag + 1):
        send(agent, pair.play())
    replica.iterate(lambda: Decision.GO_ON)
    follower = PolicyFollower(pair.agent.normaliser, [pair.vector, pair.agent.policy.exploration])
    follower.update(agent)
    assert follower.version == 1 and all(map(torch.equal, follower.parameters, pair.learner.published))
    assert free == [max_lag > 0] and replica.version == 1
    for one in (agent, end, mailboxes):
        one.close()
    os.close(memory)


def send(agent, batch):
    place = agent.lease()
    for name, view in place.views.items():
        view.copy_(getattr(batch, name)[0])
        place.wrote_whole(name)
    place.commit()
