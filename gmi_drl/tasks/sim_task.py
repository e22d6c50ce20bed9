"""The shared part of our own tasks: steps, episodes, accidents and state, over any `Sim`.

An episode's time limit is `spec.episode_steps` steps; IsaacGymEnvs ends it one step earlier.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.sim.base import Sim
from gmi_drl.tasks.task import checked_action
from gmi_drl.tasks.terms import RewardTerms, Terms
from gmi_drl.workload import TaskSpec

Fields = Mapping[str, Tensor]
"""Simulator fields by name, float32 `[N, ...]`; float64 where they are as stepped."""


@dataclass(frozen=True)
class TaskDefinition:
    """What sets one task apart: a model, and pure functions over batches of N worlds.

    Args:
        spec: Sizes, shared with planning.
        build_mjcf: Writes the model.
        substeps: Physics steps per control step.
        fields: The simulator's fields that the functions read.
        observe: `(fields, last action [N, A]) -> observation [N, O]`.
        reward_done: `(observation, action, remembered fields, fields) -> reward [N], terminated [N]` of a step.
        reward_terms: What that reward is made of: terms by name, `[N]` each, that add up to it; asked only where they
            are told.
        reset_noise: Random numbers K that a world draws in every step.
        reset_state: `noise [N, K], uniform in [-1, 1) -> state fields [N, ...]` of new episodes.
        remembered: Fields that `reward_done` reads as they were before the step.
        control: `(fields, action [N, A]) -> ctrl [N, nu]`, what the motors are told; by default the action itself.
        new_goal: `(fields, noise [N, K]) -> mask [N], state fields [N, ...]`: which worlds get another goal within
            their episode, and which; forces there become those of the present state. None where the goal stays.
        as_stepped: Whether fields are those that MuJoCo's own step leaves, as gymnasium reads them (`SteppedSim`).
    """

    spec: TaskSpec
    build_mjcf: Callable[[], str]
    substeps: int
    fields: tuple[str, ...]
    observe: Callable[[Fields, Tensor], Tensor]
    reward_done: Callable[[Tensor, Tensor, Fields, Fields], tuple[Tensor, Tensor]]
    reward_terms: Callable[[Tensor, Tensor, Fields, Fields], Terms]
    reset_noise: int
    reset_state: Callable[[Tensor], dict[str, Tensor]]
    remembered: tuple[str, ...] = ()
    control: Callable[[Fields, Tensor], Tensor] = lambda fields, action: action
    new_goal: Callable[[Fields, Tensor], tuple[Tensor, dict[str, Tensor]]] | None = None
    as_stepped: bool = False


class SimTask:
    """A `Task` by a definition and a simulator.

    The noise of new episodes is drawn for all worlds in every step and used where one ended: what a world draws depends
    on the seed and the step alone, not on the other worlds, and no step waits for a GPU to learn who ended. On the CPU,
    where asking is free, a step in which nothing ended is spared the rest.

    Attributes:
        reward_terms: Sums of what the rewards were made of, if `tells_terms`; a bad world has none.
    """

    counts_by_itself = False

    def __init__(self, definition: TaskDefinition, sim: Sim, seed: int, *, tells_terms: bool = False) -> None:
        self.spec = definition.spec
        self.num_env = sim.num_env
        self.device = sim.device
        self.episode_length = torch.zeros(sim.num_env, dtype=torch.int64, device=sim.device)
        self._definition = definition
        self._sim = sim
        self._generator = torch.Generator(sim.device)
        self._generator.manual_seed(seed)
        self.obs = self.reset()
        self.reward_terms = RewardTerms(self._names_of_terms(), self.device) if tells_terms else None

    @torch.no_grad()
    def reset(self) -> Tensor:
        """See `Task.reset`."""
        self._start_episodes(torch.ones(self.num_env, dtype=torch.bool, device=self.device), self._noise())
        self._sim.forward()
        no_action = torch.zeros(self.num_env, self.spec.num_actions, device=self.device)
        self.obs = self._definition.observe(self._fields(), no_action)
        return self.obs

    @torch.no_grad()
    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """See `Task.step`."""
        action = checked_action(action, self).clamp(-1, 1)
        before = {name: self._sim.get(name).clone() for name in self._definition.remembered}
        self._sim.step(self._definition.control(self._fields(), action))
        after = self._fields()
        final_obs = self._definition.observe(after, action)
        reward, terminated = self._definition.reward_done(final_obs, action, before, after)

        bad = self._sim.bad() | ~(final_obs.sum(1) + reward).isfinite()
        if self.reward_terms is not None:
            self.reward_terms.add(self._definition.reward_terms(final_obs, action, before, after), bad)
        final_obs = torch.where(bad[:, None], self.obs, final_obs)
        self.episode_length += 1
        terminated = terminated & ~bad
        truncated = bad | ((self.episode_length >= self.spec.episode_steps) & ~terminated)

        self.obs = self._go_on(terminated | truncated, action, final_obs)
        info = {"final_obs": final_obs, "bad": bad, "valid": ~bad}
        return self.obs, reward.masked_fill(bad, 0.0), terminated, truncated, info

    @property
    def model_xml(self) -> str:
        """The model as MJCF."""
        return self._definition.build_mjcf()

    def states(self) -> Tensor:
        """A copy of each world's integration state (MuJoCo), float64 `[N, S]` on the CPU: all that a picture shows."""
        return self._sim.state_dict()["state"].double()

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of everything, on the CPU: a task that loads it goes on bit-identically."""
        sim = {f"sim.{name}": tensor for name, tensor in self._sim.state_dict().items()}
        own = {"obs": self.obs.clone().cpu(), "episode_length": self.episode_length.clone().cpu()}
        return {**sim, **own, "generator": self._generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state_dict`."""
        if not state:
            self.reset()
            return
        self._sim.load_state_dict({name[4:]: tensor for name, tensor in state.items() if name.startswith("sim.")})
        self.obs = state["obs"].clone().to(self.device)
        self.episode_length.copy_(state["episode_length"])
        self._generator.set_state(state["generator"])

    def close(self) -> None:
        """Free the worlds."""
        self._sim.close()

    def _names_of_terms(self) -> list[str]:
        no_action = torch.zeros(self.num_env, self.spec.num_actions, device=self.device)
        before = {name: self._sim.get(name) for name in self._definition.remembered}
        return [*self._definition.reward_terms(self.obs, no_action, before, self._fields())]

    def _fields(self) -> dict[str, Tensor]:
        return {name: self._sim.get(name) for name in self._definition.fields}

    def _noise(self) -> Tensor:
        shape = (self.num_env, self._definition.reset_noise)
        return torch.empty(shape, device=self.device).uniform_(-1, 1, generator=self._generator)

    def _go_on(self, ended: Tensor, action: Tensor, obs: Tensor) -> Tensor:
        """Begin new episodes where the last ended, and give new goals; the observation that follows `obs`."""
        noise = self._noise()
        changed = self._give_goals(noise) | ended
        if self.device.type == "cpu" and not changed.any():
            return obs
        self._start_episodes(ended, noise)
        self._sim.forward()
        return self._definition.observe(self._fields(), action.masked_fill(ended[:, None], 0.0))

    def _give_goals(self, noise: Tensor) -> Tensor:
        """Which worlds `[N]` have got another goal."""
        if self._definition.new_goal is None:
            return torch.zeros(self.num_env, dtype=torch.bool, device=self.device)
        mask, values = self._definition.new_goal(self._fields(), noise)
        for name, value in values.items():
            self._sim.set(name, mask, value)
        return mask

    def _start_episodes(self, mask: Tensor, noise: Tensor) -> None:
        self._sim.reset(mask)
        for name, value in self._definition.reset_state(noise).items():
            self._sim.set(name, mask, value)
        self.episode_length.masked_fill_(mask, 0)
