"""Records experience in serving: step by step on the device, from where a sink gets it in blocks."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.replay.files.block import Block
from gmi_drl.tasks import Task
from gmi_drl.tasks.task import knows_final_obs
from gmi_drl.workload.observations import dtype_of


class Sink(Protocol):
    """Takes blocks of experience: `replay.files.shards.ShardFiles`, or any other class with these methods."""

    def take(self, block: Block) -> None:
        """Take a block, which continues the last one. May wait until there is room.

        Its tensors are on the device of the task and are overwritten afterwards: copy what is to be kept.
        """

    def close(self) -> None:
        """End the recording. On return all blocks are stored."""


class Recorder:
    """A buffer of `capacity` control steps on the task's device. Only `flush` waits.

    Args:
        task: Whose steps are recorded.
        capacity: Control steps.
        sink: Gets the blocks.
    """

    def __init__(self, task: Task, capacity: int, sink: Sink) -> None:
        self._task, self._sink, self._steps = task, sink, 0
        each = (capacity, task.num_env)

        def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.empty(shape, dtype=dtype, device=task.device)

        def flags() -> Tensor:
            return torch.empty(each, dtype=torch.bool, device=task.device)

        seen = task.spec.observation
        self._obs, self._final_obs = (numbers(*each, *seen.shape, dtype=dtype_of(seen)) for _ in range(2))
        self._action, self._reward = numbers(*each, task.spec.action.size), numbers(*each)
        self._terminated, self._truncated, self._valid = flags(), flags(), flags()

    @property
    def room(self) -> int:
        """Number of steps that fit before the next flush."""
        return len(self._obs) - self._steps

    def add(
        self,
        obs: Tensor,
        action: Tensor,
        reward: Tensor,
        terminated: Tensor,
        truncated: Tensor,
        info: Mapping[str, Tensor],
    ) -> None:
        """Record one control step: the observations before it, `[N, O]`, the actions, and what `Task.step` returned."""
        t = self._steps
        self._obs[t].copy_(obs)
        self._action[t].copy_(action)
        self._reward[t].copy_(reward)
        self._terminated[t].copy_(terminated)
        self._truncated[t].copy_(truncated)
        self._valid[t].copy_(info["valid"])
        self._final_obs[t].copy_(info["final_obs"])
        self._steps += 1

    def flush(self) -> None:
        """Pass the recorded steps to the sink. Waits for the device, and for the sink if it has no room."""
        if not self._steps:
            return
        steps, self._steps = self._steps, 0
        terminated, truncated, valid = (one[:steps] for one in (self._terminated, self._truncated, self._valid))
        at = ((terminated | truncated) & valid).nonzero()
        self._sink.take(
            Block(
                self._obs[:steps],
                self._action[:steps],
                self._reward[:steps],
                terminated,
                truncated,
                valid,
                last_obs=self._task.obs,
                final_obs=self._final_obs[at[:, 0], at[:, 1]],
                final_at=at,
                knows_final_obs=knows_final_obs(self._task),
            )
        )

    def close(self) -> None:
        """Flush, and wait until the sink has stored everything."""
        self.flush()
        self._sink.close()
