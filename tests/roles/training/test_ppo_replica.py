"""Whole trainings of one replica, in a toy whose best is known."""

from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks.adapters.gymnasium import GymnasiumTask

N, T, LENGTH, CHOICES = 8, 16, 10, 5


class Allowed(gymnasium.Env):
    """Rewards the largest choice that is allowed, and fails at one that is not. The mask alone tells which are."""

    observation_space = spaces.Dict(
        action_mask=spaces.Box(0, 1, (CHOICES,), np.int8), clock=spaces.Box(0, 1, (1,), np.float32)
    )
    action_space = spaces.Discrete(CHOICES)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._see(), {}

    def step(self, action):
        if not self.mask[action]:
            raise ValueError(f"{action} is forbidden by {self.mask}")
        reward = float(action == self.mask.nonzero()[0].max())
        self.steps += 1
        return self._see(), reward, False, self.steps == LENGTH, {}

    def _see(self):
        self.mask = self.np_random.integers(0, 2, CHOICES).astype(np.int8)
        self.mask[self.np_random.integers(CHOICES)] = 1
        return {"action_mask": self.mask.copy(), "clock": np.array([self.steps / LENGTH], np.float32)}


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_a_mask_is_obeyed_and_the_best_of_what_it_allows_is_learnt(memory):
    """The mask is no input of the networks: what is best among the allowed is an order of the logits."""
    task = GymnasiumTask(SyncVectorEnv([partial(Allowed)] * N, autoreset_mode=AutoresetMode.SAME_STEP))
    more = {} if memory == "none" else {"memory": memory, "memory_size": 8}
    learner = PPOConfig(hidden=(8,), horizon=T, minibatches=2, learning_rate=1e-2, schedule="fixed", **more)
    replica = PPOReplica(
        task.spec, RunConfig(learner=learner), NoReduction(), sample_share=1.0, device=torch.device("cpu"), seed=0
    )
    replica.attach_task(task, seed=0)
    first, *_, last = [replica.iterate(lambda: Decision.GO_ON).reward_sum / (N * T) for _ in range(40)]
    assert first < 0.7 and last > 0.9
