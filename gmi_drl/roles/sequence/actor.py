"""The actor: a sequence policy acts in its task, so that its returns are seen."""

import torch
from torch import Tensor

from gmi_drl.algo.sequence_agent import SequenceAgent
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.episodes import Episodes, stagger
from gmi_drl.roles.training.policy_step import PolicyStep
from gmi_drl.run.checkpoint import prefixed, with_prefix
from gmi_drl.tasks import Task
from gmi_drl.tasks.task import own_outcome
from gmi_drl.tasks.terms import terms_of


class SequenceActor:
    """Plays `horizon` steps at a time without noise, and learns nothing from them.

    Args:
        task: The environments, already on their first observation.
        agent: Acts in them.
        horizon: H: steps of `play`.
        generator: Of when first episodes end, on the task's device.
        cuda_graphs: Whether the agent acts by a CUDA graph, on a GPU.

    Attributes:
        sums: Of the last steps, as `Rollout.sums`, float64 `[5 + K]`.
        steps: Of them, those that were transitions, `[]`.
    """

    def __init__(
        self, task: Task, agent: SequenceAgent, horizon: int, generator: torch.Generator, *, cuda_graphs: bool = True
    ) -> None:
        self.task, self.horizon, self._generator = task, horizon, generator
        self._act = PolicyStep(task, agent, cuda_graphs=cuda_graphs)
        self._episodes, self.terms = Episodes(task.num_env, task.device), terms_of(task)
        self._reward, self._done, self._valid = torch.zeros(3, horizon, task.num_env, device=task.device).unbind()
        self._no_noise = torch.zeros(task.num_env, task.spec.action.params, device=task.device)
        size = 5 + (len(self.terms.names) if self.terms else 0)
        self.sums = torch.zeros(size, dtype=torch.float64, device=task.device)
        stagger(task, generator)

    @property
    def steps(self) -> Tensor:
        """How many of the last steps were transitions, float64 `[]`."""
        return self._valid.sum(dtype=torch.float64)

    @torch.no_grad()
    def play(self, clock: PhaseClock) -> None:
        """Play `horizon` steps."""
        act, self.sums[4] = self._act, 0.0
        for t in range(self.horizon):
            act(self._no_noise)
            clock.mark("act_s")
            _, reward, terminated, truncated, info = self.task.step(act.action)
            clock.mark("sim_s")
            act.receive(reward, info["valid"])
            act.forget(terminated | truncated)
            self._reward[t], self._done[t] = own_outcome(reward, terminated | truncated, info)
            self._valid[t] = info["valid"]
            self.sums[4] += info["bad"].sum()
        self.sums[:4] = self._episodes.sum_up(self._reward, self._done, self._valid)
        if self.terms:
            self.sums[5:] = self.terms.pop_sums()

    def state_dict(self) -> dict[str, Tensor]:
        """Task, contexts, running episodes."""
        assert self._act.state is not None
        own = {"episode": self._episodes.running, "context": self._act.state}
        return prefixed("task", self.task.state_dict()) | own | {"generator": self._generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from `state_dict`; with new episodes if the task has no state to save."""
        assert self._act.state is not None
        task_state = with_prefix("task", state)
        self.task.load_state_dict(task_state)
        self._generator.set_state(state["generator"])
        self._episodes.running.copy_(state["episode"])
        self._act.state.copy_(state["context"])
        if not task_state:
            self._episodes.running.zero_()
            self._act.state.zero_()
            stagger(self.task, self._generator)
