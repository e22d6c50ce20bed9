"""A task for tests: walkers on a line, who are paid for where they are, by one choice or by a number."""

from dataclasses import replace

import torch

from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import categorical, continuous, vector

LIMIT, STEPS = 3.0, 20


class Line:
    """A walker starts near 0 and moves by up to 1; the reward is its place. It ends at -3, and after 20 steps."""

    counts_by_itself, knows_final_obs = False, True
    device = torch.device("cpu")

    def __init__(self, num_env, *, chooses=True, seed=0):
        action = categorical(2) if chooses else continuous(1)
        self.spec = replace(
            TASK_SPECS["ant"], name="line", observation=vector(2), action=action, episode_steps=STEPS, hidden=(8,)
        )
        self.num_env, self._draw = num_env, torch.Generator().manual_seed(seed)
        self.episode_length = torch.zeros(num_env, dtype=torch.int64)
        self._place = self._start()
        self.obs = self._seen()

    def _start(self):
        return torch.rand(self.num_env, generator=self._draw) - 0.5

    def _seen(self):
        return torch.stack((self._place, torch.ones(self.num_env)), 1)

    def reset(self):
        self._place, self.obs = self._start(), self._seen()
        self.episode_length.zero_()
        return self.obs

    def step(self, action):
        move = action[:, 0] * 2 - 1 if self.spec.action.categories else action[:, 0].clamp(-1, 1)
        self._place = (self._place + move).clamp(-LIMIT, LIMIT)
        self.episode_length += 1
        reward, final = self._place.clone(), self._seen()
        terminated = self._place <= -LIMIT
        truncated = ~terminated & (self.episode_length >= STEPS)
        done = terminated | truncated
        self._place = torch.where(done, self._start(), self._place)
        self.episode_length *= ~done
        self.obs = self._seen()
        valid = torch.ones(self.num_env, dtype=torch.bool)
        return self.obs, reward, terminated, truncated, {"final_obs": final, "bad": ~valid, "valid": valid}

    def state_dict(self):
        return {"place": self._place.clone(), "length": self.episode_length.clone(), "draw": self._draw.get_state()}

    def load_state_dict(self, state):
        self._place.copy_(state["place"])
        self.episode_length.copy_(state["length"])
        self._draw.set_state(state["draw"])
        self.obs = self._seen()

    def close(self):
        pass
