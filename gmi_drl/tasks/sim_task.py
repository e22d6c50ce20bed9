"""What all our own tasks share: steps, episodes, failures of the physics and saved state, over any `Sim`.

An episode's time limit is `spec.episode_steps` steps; IsaacGymEnvs ends it one step earlier.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.cuda_graph import Captured
from gmi_drl.tasks.finite import finite_weights, weighed_sums
from gmi_drl.tasks.sim.base import Sim
from gmi_drl.tasks.task import checked_action
from gmi_drl.tasks.terms import RewardTerms, Terms
from gmi_drl.workload import TaskSpec

Fields = Mapping[str, Tensor]
"""Simulator fields by name, float32 `[N, ...]`; float64 where they are as stepped."""


@dataclass(frozen=True)
class TaskDefinition:
    """One task: a model, and pure functions over batches of N environments.

    Args:
        spec: The task's sizes, which planning reads, too.
        build_mjcf: Returns the model as MJCF.
        substeps: Physics steps per control step.
        fields: The simulator's fields that the functions read.
        observe: `(fields, last action [N, A]) -> observation [N, O]`.
        reward_done: `(observation, action, fields before, fields after) -> reward [N], terminated [N]` of a step.
        reward_terms: With the same arguments, the terms of that reward by name, `[N]` each. Called only if the task
            sums them.
        reset_noise: Random numbers K that each environment draws in every step.
        reset_state: `noise [N, K], uniform in [-1, 1) -> state fields [N, ...]` of new episodes.
        remembered: The fields that `reward_done` reads as they were before the step.
        control: `(fields, action [N, A]) -> ctrl [N, nu]`, the motors' input; by default the action itself.
        new_goal: `(fields, noise [N, K]) -> mask [N], state fields [N, ...]`: which environments get a new goal within
            their episode, and the new goals. Forces there become those of the present state. None: goals never change.
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
    """A `Task` from a definition and a simulator.

    Every step draws the noise of new episodes for all environments, and uses it where an episode ended. So the noise
    depends only on the seed and the step, and no step waits for a GPU to learn which episodes ended. On the CPU, where
    this can be looked up at no cost, a step in which none ended does no more work.

    On a GPU the work before, between and after the simulator's own is captured as CUDA graphs. So the tensors of a
    step have the same addresses in every step.

    Args:
        definition: The task.
        sim: The simulator with its N environments.
        seed: Seed of all draws.
        tells_terms: Whether to sum the terms of the rewards.
        cuda_graphs: If False, every kernel is launched by itself on a GPU, too.

    Attributes:
        reward_terms: Sums of the terms of the rewards, if `tells_terms`, without those of bad environments.
    """

    counts_by_itself = False

    def __init__(
        self, definition: TaskDefinition, sim: Sim, seed: int, *, tells_terms: bool = False, cuda_graphs: bool = True
    ) -> None:
        self.spec = definition.spec
        self.num_env = sim.num_env
        self.device = sim.device
        self._definition = definition
        self._sim = sim
        self._generator = torch.Generator(sim.device)
        self._generator.manual_seed(seed)
        self._allocate()

        def captured(function: Callable[[], None], *, sets: bool = False) -> Captured:
            return Captured(function, sim.device, is_on=cuda_graphs and (sim.sets_on_device or not sets))

        self._control = captured(self._compute_control)
        self._evaluate = captured(self._evaluate_step, sets=definition.new_goal is not None)
        self._begin = captured(self._set_first_states, sets=True)
        self._observe = captured(self._compute_obs)
        self._skips_unchanged = sim.device.type == "cpu" or not sim.sets_on_device
        self.reset()
        self.reward_terms = RewardTerms(self._names_of_terms(), self.device) if tells_terms else None

    @torch.no_grad()
    def reset(self) -> Tensor:
        """See `Task.reset`."""
        self._ended.fill_(True)
        self._action.zero_()
        self._draw()
        self._start_episodes()
        return self.obs

    @torch.no_grad()
    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """See `Task.step`."""
        self._action.copy_(checked_action(action, self))
        self._control()
        self._sim.step(self._ctrl)
        self._draw()
        self._evaluate()
        if not self._skips_unchanged or self._changed.any():
            self._start_episodes()
        else:
            self.obs.copy_(self._final_obs)
        info = {"final_obs": self._final_obs, "bad": self._bad, "valid": self._valid}
        return self.obs, self._reward, self._terminated, self._truncated, info

    @property
    def model_xml(self) -> str:
        """The model as MJCF."""
        return self._definition.build_mjcf()

    def states(self) -> Tensor:
        """A copy of MuJoCo's integration states, float64 `[N, S]` on the CPU, from which pictures are drawn."""
        return self._sim.state_dict()["state"].double()

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of the whole state, on the CPU. A task that loads it goes on bit-identically."""
        sim = {f"sim.{name}": tensor for name, tensor in self._sim.state_dict().items()}
        own = {"obs": self.obs.clone().cpu(), "episode_length": self.episode_length.clone().cpu()}
        return {**sim, **own, "generator": self._generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state_dict`."""
        if not state:
            self.reset()
            return
        self._sim.load_state_dict({name[4:]: tensor for name, tensor in state.items() if name.startswith("sim.")})
        self.obs.copy_(state["obs"])
        self.episode_length.copy_(state["episode_length"])
        self._generator.set_state(state["generator"])

    def close(self) -> None:
        """Free the environments and the graphs."""
        self._sim.close()
        for graph in ("_control", "_evaluate", "_begin", "_observe"):  # they refer to this task: break the cycles
            vars(self).pop(graph, None)

    def _allocate(self) -> None:
        """Allocate all that the graphs read or write."""
        num_env, actions, device = self.num_env, self.spec.action.size, self.device
        self.episode_length = torch.zeros(num_env, dtype=torch.int64, device=device)
        self.obs: Tensor = torch.zeros(num_env, self.spec.observation.size, device=device)
        self._final_obs = torch.zeros_like(self.obs)
        self._weights = finite_weights(self.spec.observation.size, device)
        self._action = torch.zeros(num_env, actions, device=device)
        self._noise = torch.zeros(num_env, self._definition.reset_noise, device=device)
        self._reward = torch.zeros(num_env, device=device)
        masks = torch.zeros(6, num_env, dtype=torch.bool, device=device)
        self._terminated, self._truncated, self._bad, self._valid, self._ended, self._changed = masks
        self._before = {name: self._sim.get(name).clone() for name in self._definition.remembered}
        self._ctrl = self._definition.control(self._fields(), self._action).clone()

    def _names_of_terms(self) -> list[str]:
        return [*self._definition.reward_terms(self.obs, self._action, self._before, self._fields())]

    def _fields(self) -> dict[str, Tensor]:
        return {name: self._sim.get(name) for name in self._definition.fields}

    def _draw(self) -> None:
        self._noise.uniform_(-1, 1, generator=self._generator)

    def _compute_control(self) -> None:
        """From the action: the motors' input. Also remembers fields of the state before the step."""
        self._action.clamp_(-1, 1)
        for name, field in self._before.items():
            field.copy_(self._sim.get(name))
        self._ctrl.copy_(self._definition.control(self._fields(), self._action))

    def _evaluate_step(self) -> None:
        """From the state after the step: rewards, flags, last observations, which episodes ended, and new goals."""
        after, action = self._fields(), self._action
        final_obs = self._definition.observe(after, action)
        reward, terminated = self._definition.reward_done(final_obs, action, self._before, after)
        is_finite = weighed_sums(final_obs, self._weights, reward).isfinite()
        torch.logical_or(self._sim.bad(), ~is_finite, out=self._bad)
        torch.logical_not(self._bad, out=self._valid)
        if self.reward_terms is not None:
            terms = self._definition.reward_terms(final_obs, action, self._before, after)
            self.reward_terms.add(terms, self._bad)
        torch.where(self._valid[:, None], final_obs, self.obs, out=self._final_obs)
        self._reward.copy_(reward).masked_fill_(self._bad, 0.0)
        self.episode_length += 1
        torch.logical_and(terminated, self._valid, out=self._terminated)
        is_late = (self.episode_length >= self.spec.episode_steps).logical_and_(self._terminated.logical_not())
        torch.logical_or(self._bad, is_late, out=self._truncated)
        torch.logical_or(self._terminated, self._truncated, out=self._ended)
        self._changed.copy_(self._ended)
        self._set_new_goals()

    def _set_new_goals(self) -> None:
        if self._definition.new_goal is None:
            return
        mask, values = self._definition.new_goal(self._fields(), self._noise)
        for name, value in values.items():
            self._sim.set(name, mask, value)
        self._changed.logical_or_(mask)

    def _start_episodes(self) -> None:
        """Begin new episodes where the last ones ended, and observe all environments."""
        self._sim.reset(self._ended)
        self._begin()
        self._sim.forward()
        self._observe()

    def _set_first_states(self) -> None:
        for name, value in self._definition.reset_state(self._noise).items():
            self._sim.set(name, self._ended, value)
        self.episode_length.masked_fill_(self._ended, 0)

    def _compute_obs(self) -> None:
        self._action.masked_fill_(self._ended[:, None], 0.0)  # a first observation has no last action
        self.obs.copy_(self._definition.observe(self._fields(), self._action))
