"""A game of PettingZoo's in which agents leave one after the other."""

import numpy as np
from gymnasium import spaces


class Leaving:
    """Agent k leaves after `leaves[k]` steps; it sees its number and the steps, and is rewarded by its action."""

    max_cycles = 9

    def __init__(self, leaves=(2, 4), seen=(2, 2), choices=(3, 3), fails_at=None, has_state=True):
        self.possible_agents = [f"agent_{number}" for number in range(len(leaves))]
        self._leaves, self._seen, self._choices = leaves, seen, choices
        self._fails_at, self._has_state = fails_at, has_state
        self.unwrapped, self.closed = self, False

    def observation_space(self, agent):
        return spaces.Box(-9, 9, (self._seen[self.possible_agents.index(agent)],), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(self._choices[self.possible_agents.index(agent)])

    def state(self):
        if not self._has_state:
            raise NotImplementedError
        return np.array([self.steps], np.int64)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = [*self.possible_agents], 0
        return {agent: self._obs(agent) for agent in self.agents}, {}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        assert all(self.action_space(agent).contains(action) for agent, action in actions.items())
        self.steps += 1
        if self.steps == self._fails_at:
            raise RuntimeError("the ball is gone")
        here = self.agents
        ends = {agent: self.steps >= self._leaves[self.possible_agents.index(agent)] for agent in here}
        self.agents = [agent for agent in here if not ends[agent]]
        told = {agent: self._obs(agent) for agent in here}
        rewards = {agent: float(action) for agent, action in actions.items()}
        return told, rewards, ends, dict.fromkeys(here, False), {}

    def render(self):
        return np.full((6, 4, 3), self.steps, np.uint8)

    def close(self):
        self.closed = True

    def _obs(self, agent):
        number = self.possible_agents.index(agent)
        return np.full(self._seen[number], number + self.steps / 10, np.float32)


class MaskedLeaving(Leaving):
    """The same with a mask, which allows nothing once an agent has left, as in real games."""

    def observation_space(self, agent):
        return spaces.Dict(observation=super().observation_space(agent), action_mask=spaces.MultiBinary(3))

    def _obs(self, agent):
        has_left = self.steps >= self._leaves[self.possible_agents.index(agent)]
        return {"observation": super()._obs(agent), "action_mask": np.full(3, not has_left, np.int8)}


class Pictured(Leaving):
    """Its state is an image of 5 x 5 with 7 channels."""

    def state(self):
        return np.full((5, 5, 7), self.steps + 200, np.uint8)


class Late(Leaving):
    """Its last agent comes later."""

    def reset(self, seed=None, options=None):
        seen, infos = super().reset(seed, options)
        self.agents.pop()
        return {agent: seen[agent] for agent in self.agents}, infos
