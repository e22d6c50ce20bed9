"""Replicas that see different experience hold the same learner, bit for bit, over real processes."""

import json
import subprocess
import sys
import weakref
from contextlib import closing

import pytest
import torch
from conftest import tiny_config

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.comm.rendezvous import RendezvousPoints
from gmi_drl.cuda_graph import Captured
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS
from tests.comm.ranks import METHODS, legal
from tests.fork_server import SERVER

WORKER = """
import json
import sys
import torch
from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.ppo import PPO
from gmi_drl.algo.rollout import Rollout
from gmi_drl.comm import open_group, open_reduction
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.config.learners import PPOConfig
from gmi_drl.comm.membership import Membership
from gmi_drl.layout.reductions import REDUCTIONS
from gmi_drl.workload import TaskSpec
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector

rank, mapping = int(sys.argv[1]), json.loads(sys.argv[2])
torch.set_num_threads(1)
method, size = REDUCTIONS.find(sys.argv[3]), sum(map(len, mapping))
member = Membership(rank, mapping, hang_s=60, spins=False)
group = open_group(method, member, Rendezvous.from_order(json.loads(sys.argv[4])))
reduction = open_reduction(method, group)
spec = TaskSpec("small", "S", observation=vector(6), action=continuous(2), hidden=(16,), episode_steps=10, step_s=1.0)
torch.manual_seed(0)
policy = ActorCritic(spec)
config = PPOConfig(horizon=4, epochs=2, minibatches=5)
ppo = PPO(policy, config, sample_share=1 / size, reduce=reduction.reduce, make_bucket=reduction.bucket)
normaliser = Normaliser(spec.observation, torch.device("cpu"))
generator = torch.Generator().manual_seed(1 + rank)
rollout = Rollout(RolloutForm(4, 10, vector(6), continuous(2)), torch.device("cpu"))
rollout.valid.fill_(1)
for _ in range(5):  # x 2 epochs x 5 mini-batches = 50 updates
    raw = torch.randn(4, 10, 6, generator=generator) * 3 + 1
    rollout.obs.copy_(normaliser(raw))
    with torch.no_grad():
        noise = torch.randn(rollout.action.shape, generator=generator)
        rollout.action[:], rollout.params[:] = policy.act(rollout.obs, noise)
        rollout.log_prob.copy_(policy.log_prob(rollout.action, rollout.params))
        rollout.value.copy_(policy.value(rollout.obs))
        rollout.log_std.copy_(policy.log_std)
    rollout.reward.copy_(torch.randn(4, 10, generator=generator))
    rollout.advantages(torch.zeros(10), config)
    deltas = group.gather(normaliser.delta(raw))
    ppo.update(rollout, torch.randperm(40, generator=generator))
    normaliser.merge(deltas)
learner = tensor_digest(*ppo.state_dict().values(), normaliser.statistics)
print(learner, tensor_digest(rollout.obs), int(ppo.state_dict()["adam.step"]))
group.barrier()
group.close()
"""


MAPPINGS = ([[0], [1]], [[0], [1], [2]], [[0, 1], [2, 3]])


@pytest.mark.parametrize(("mapping", "method"), [(mapping, name) for mapping in MAPPINGS for name in legal(mapping)])
def test_parameters_optimizer_and_normaliser_are_bit_identical_after_fifty_updates(mapping, method):
    size = sum(map(len, mapping))
    with closing(RendezvousPoints(METHODS[method], mapping, 2**16)) as points:
        ranks = [
            SERVER.popen(
                [sys.executable, "-c", WORKER, str(rank), str(mapping), method, json.dumps(points[rank].to_order())],
                pass_fds=points[rank].descriptors.values(),
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]
    printed = [rank.communicate(timeout=120)[0].split() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * size
    learners, experiences, steps = zip(*printed, strict=True)
    assert len(set(learners)) == 1 and len(set(experiences)) == size and set(steps) == {"50"}


def test_phases_are_of_the_last_iteration_alone():
    reduction = NoReduction()
    reduction.wait_s = 1000.0  # what was waited before is none of its business
    replica = PPOReplica(
        TASK_SPECS["ant"], tiny_config(), reduction, sample_share=1.0, device=torch.device("cpu"), seed=0
    )
    replica.attach_task(make("ant", num_env=2), seed=0)
    replica.iterate(lambda: Decision.GO_ON)
    phases = replica.phases()
    assert set(phases) == set(PHASE_NAMES) and phases["sync_s"] == 0
    assert all(0 < phases[name] < 1000 for name in PHASE_NAMES if name != "sync_s")


def test_a_replica_goes_on_with_the_learner_of_another():
    first, second = (
        PPOReplica(
            TASK_SPECS["ant"],
            tiny_config(seed=seed),
            NoReduction(),
            sample_share=1.0,
            device=torch.device("cpu"),
            seed=0,
        )
        for seed in (0, 1)
    )
    first.attach_task(make("ant", num_env=2), seed=0)
    first.iterate(lambda: Decision.GO_ON)
    state = {name: tensor.clone() for name, tensor in first.learner_state().items()}
    assert any(not torch.equal(second.learner_state()[name], tensor) for name, tensor in state.items())
    second.load_learner_state(state)
    assert all(torch.equal(second.learner_state()[name], tensor) for name, tensor in state.items())
    obs = torch.randn(3, TASK_SPECS["ant"].observation.size)
    assert torch.equal(second.learner.agent.act(obs), first.learner.agent.act(obs))


def test_detaching_a_task_frees_all_that_was_made_for_it():
    replica = PPOReplica(
        TASK_SPECS["ant"], tiny_config(), NoReduction(), sample_share=1.0, device=torch.device("cpu"), seed=0
    )
    for num_env in (2, 3):
        replica.attach_task(make("ant", num_env=num_env), seed=0)
        replica.iterate(lambda: Decision.GO_ON)
        left = [weakref.ref(part) for part in (replica.actor, replica.actor.task, replica.slot, replica.slot.rollout)]
        left.append(weakref.ref(replica.learner.updater._shuffled))
        replica.detach_task()
        assert [reference() for reference in left] == [None] * 5


def test_detaching_a_task_frees_its_graphs(monkeypatch):
    """A graph that stayed, Adam's say, would keep the memory that all graphs share."""
    made, init = [], Captured.__init__
    monkeypatch.setattr(
        Captured, "__init__", lambda self, *args, **more: made.append(weakref.ref(self)) or init(self, *args, **more)
    )
    task = make("ball_balance", num_env=4)
    replica = PPOReplica(task.spec, tiny_config(), NoReduction(), sample_share=1.0, device=torch.device("cpu"), seed=0)
    replica.attach_task(task, seed=0)
    replica.iterate(lambda: Decision.GO_ON)
    captured = list(made)
    task.close()
    replica.detach_task()
    assert len(captured) > 3 and not any(work() for work in captured)
