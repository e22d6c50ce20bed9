import pytest
import torch
from conftest import tiny_config

from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.algo.rollout import BATCH, Rollout
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.roles.training.actor import Actor
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.iteration_stats import Decision, exchange_stats
from gmi_drl.roles.training.learner import Learner
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS

SPEC, CONFIG, CPU, N = TASK_SPECS["ant"], tiny_config(), torch.device("cpu"), 4
TRAVELS = (*BATCH, "log_std", "delta", "sums")


def make_learner(config=CONFIG, seed=3):
    return Learner(SPEC, config, NoReduction(), sample_share=1.0, device=CPU, seed=seed)


def learn(learner, rollout):
    stats = exchange_stats(learner.group, Decision.GO_ON, rollout.sums, rollout.advantage_moments(), rollout.delta)
    learner.update(rollout, stats)


def digest(learner):
    return tensor_digest(*learner.state_dict().values())


@pytest.fixture
def actor():
    """Acts with an agent of its own."""
    elsewhere = make_learner(CONFIG.model_copy(update={"seed": 8}))
    actor = Actor(make("ant", num_env=N), elsewhere.agent, CONFIG.learner, torch.Generator().manual_seed(5))
    actor.follow = elsewhere.load_state_dict
    return actor


def test_an_actor_with_a_copy_of_the_agent_and_two_slots_gives_what_the_direct_join_gives(actor):
    """As on another GMI: parameters go one way, and a part of the rollout the other."""
    direct = PPOReplica(SPEC, CONFIG, NoReduction(), sample_share=1.0, device=CPU, seed=3)
    direct.attach_task(make("ant", num_env=N), seed=5)
    learner, arrived = (
        make_learner(),
        Rollout(RolloutForm(CONFIG.learner.horizon, N, SPEC.observation, SPEC.action), CPU),
    )
    slots, began = [actor.make_slot(), actor.make_slot()], digest(learner)
    for iteration in range(4):
        direct.iterate(lambda: Decision.GO_ON)
        actor.follow(learner.state_dict())
        slot = slots[iteration % 2]
        actor.collect(slot, PhaseClock(CPU))
        for name in TRAVELS:
            getattr(arrived, name).copy_(getattr(slot.rollout, name))
        learn(learner, arrived)
        assert digest(learner) == digest(direct.learner) != began


def test_the_order_of_samples_is_its_own(actor):
    actor.collect(slot := actor.make_slot(), PhaseClock(CPU))
    learners = [make_learner(seed=seed) for seed in (3, 3, 4)]
    for learner in learners:
        rollout = Rollout(RolloutForm(CONFIG.learner.horizon, N, SPEC.observation, SPEC.action), CPU)
        for name in TRAVELS:
            getattr(rollout, name).copy_(getattr(slot.rollout, name))
        learn(learner, rollout)
    first, same, other = map(digest, learners)
    assert first == same != other


def test_merged_deltas_scale_the_next_observations(actor):
    learner, obs = make_learner(), torch.randn(N, SPEC.observation.size)
    before = learner.agent.normaliser(obs)
    actor.collect(slot := actor.make_slot(), PhaseClock(CPU))
    learn(learner, slot.rollout)
    assert learner.agent.normaliser.statistics[0] == CONFIG.learner.horizon * N
    assert not torch.equal(learner.agent.normaliser(obs), before)


def test_another_learning_rate_is_gone_on_with():
    learner = make_learner()
    learner.set_learning_rate(0.25)
    assert learner.metrics()["learning_rate"] == 0.25
