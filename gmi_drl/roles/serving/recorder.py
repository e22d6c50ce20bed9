"""What is seen in serving, kept: written down on the device step by step, and handed to a sink a block at a time."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.replay.files.block import Block
from gmi_drl.tasks import Task
from gmi_drl.tasks.task import knows_final_obs


class Sink(Protocol):
    """Where experience goes: files (`run.experience.ShardFiles`), or whatever else takes blocks."""

    def take(self, block: Block) -> None:
        """Take a block, which goes on where the last one ended; may wait where it has no room.

        Its tensors lie on the device of the worlds and are written over afterwards: copy what is to be kept.
        """

    def close(self) -> None:
        """No more blocks come. When this returns, all that was taken is kept for good."""


class Recorder:
    """Memory of `capacity` control steps on the worlds' device, filled in place; nothing waits until it is flushed.

    Args:
        task: The worlds.
        capacity: Control steps.
        sink: Where they go.
    """

    def __init__(self, task: Task, capacity: int, sink: Sink) -> None:
        self._task, self._sink, self._steps = task, sink, 0
        each = (capacity, task.num_env)

        def numbers(*shape: int) -> Tensor:
            return torch.empty(shape, device=task.device)

        def flags() -> Tensor:
            return torch.empty(each, dtype=torch.bool, device=task.device)

        self._obs, self._final_obs = (numbers(*each, task.spec.num_obs) for _ in range(2))
        self._action, self._reward = numbers(*each, task.spec.num_actions), numbers(*each)
        self._terminated, self._truncated, self._valid = flags(), flags(), flags()

    @property
    def room(self) -> int:
        """Steps that it takes before it is to be flushed."""
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
        """Write one control step down: what was seen before, `[N, O]`, what was done, and what the task told."""
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
        """Hand over what there is, and begin anew. Waits for the device, and for the sink where it has no room."""
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
        """Hand over the rest, and wait until the sink has kept it all."""
        self.flush()
        self._sink.close()
