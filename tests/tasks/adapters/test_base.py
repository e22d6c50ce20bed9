"""Odd worlds under every learner: `test_gymnasium.py` and `test_torch_env.py` try the rest."""

from contextlib import closing

import pytest
import torch
from conftest import tiny_config
from gymnasium.spaces import Discrete

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import PPOConfig
from gmi_drl.errors import GmiWarning
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks import make
from gmi_drl.tasks.adapters.base import AdaptedTask, Outcome
from gmi_drl.tasks.adapters.spaces import ActionSpace
from gmi_drl.tasks.adapters.specs import sized
from gmi_drl.tasks.rsl_rl_env import RslRlEnv
from gmi_drl.workload.observations import pack
from gmi_drl.workload.spaces import Observation, Part, categorical

CONFIG = tiny_config(learner=PPOConfig(horizon=4, epochs=2, minibatches=2, hidden=(8,)))
odd_envs = pytest.mark.parametrize("name", ["InfFirst", "NanLater", "NanReward", "NoReading", "HugeReward"])


def odd(name):
    with pytest.warns(GmiWarning):
        task = make(f"gymnasium:odd_envs:{name}-v0", num_env=4)
        task.step(torch.zeros(4, 2))
        task.step(torch.zeros(4, 2))  # which warns where the first does not
    return task


@odd_envs
def test_ppo_learns_of_what_is_left(name):
    device = torch.device("cpu")
    with closing(odd(name)) as task:
        replica = PPOReplica(task.spec, CONFIG, NoReduction(device=device), sample_share=1.0, device=device, seed=0)
        replica.attach_task(task, seed=0)
        before = replica.learner_state()["parameters"].clone()
        for _ in range(3):
            replica.iterate(lambda: Decision.GO_ON)
        state = replica.learner_state()
    assert state["parameters"].isfinite().all() and not torch.equal(state["parameters"], before)
    assert state["normaliser"].isfinite().all()
    assert replica.slot.rollout.obs.abs().max() < 50, "what a network sees is scaled"


@odd_envs
def test_rsl_rl_learns_of_what_is_left(name):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    from rsl_rl.runners import OnPolicyRunner

    from gmi_drl.config.learners.rsl_rl import runner_config

    with closing(odd(name)) as task:
        torch.manual_seed(0)
        runner = OnPolicyRunner(RslRlEnv(task), runner_config(CONFIG.learner))
        runner.learn(3)
        state = runner.alg.save()
    tensors = [tensor for part in ("actor_state_dict", "critic_state_dict") for tensor in state[part].values()]
    assert tensors and all(tensor.isfinite().all() for tensor in tensors)


def test_the_rest_of_an_episode_that_went_wrong_is_time_outs_to_rsl_rl():
    with closing(make("gymnasium:odd_envs:NanLater-v0", num_env=1)) as task, pytest.warns(GmiWarning):
        env = RslRlEnv(task)
        steps = [env.step(torch.zeros(1, 2)) for _ in range(5)]
    assert [int(done) for _, _, done, _ in steps] == [0, 1, 1, 1, 0]
    assert [int(extras["bad"]) for *_, extras in steps] == [0, 1, 0, 0, 0]
    assert [int(extras["time_outs"]) for *_, extras in steps] == [0, 0, 1, 1, 0]
    assert [float(reward) for _, reward, _, _ in steps] == [1, 0, 0, 0, 1]


class Masked(AdaptedTask):
    """Two environments; the mask of the first allows nothing after its second step, until its episode ends."""

    def __init__(self):
        seen = Observation((Part("v", (2,)), Part("action_mask", (3,), "mask")))
        self._t, self._form = 0, seen
        super().__init__(
            sized("masked", seen, categorical(3), "", 10, 0.1), self._seen_now(), ActionSpace("m", Discrete(3))
        )

    def _seen_now(self):
        mask = torch.ones(2, 3, dtype=torch.uint8)
        mask[0] = 0 if self._t == 2 else 1
        return pack({"v": torch.zeros(2, 2), "action_mask": mask}, self._form)

    def _begin(self):
        self._t = 0
        return self._seen_now()

    def _simulate(self, action):
        self._t += 1
        ends = torch.tensor([self._t == 3, False])
        return Outcome(self._seen_now(), torch.ones(2), ends, torch.zeros(2, dtype=torch.bool), self._seen_now())

    def close(self):
        pass


def test_a_mask_that_allows_nothing_is_a_bad_step_until_the_next_episode():
    task, told = Masked(), []
    with pytest.warns(GmiWarning, match="environment 0, the mask in step 2 allows no action"):
        for _ in range(4):
            *_, info = task.step(torch.zeros(2, 1))
            told.append((info["bad"].tolist(), info["valid"].tolist()))
    good = ([False, False], [True, True])
    assert told == [good, good, ([True, False], [False, True]), good]
