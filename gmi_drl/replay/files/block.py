"""A stretch of experience: control steps of all worlds of a GMI, one after the other, whoever keeps them."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class Block:
    """T control steps of N worlds, with all that exact transitions need. Tensors lie on one device.

    A new episode begins in the same step in which the last one ends, or in the one after, which is then no transition
    (`tasks.Task.step`). So what followed is `obs` of the next step, but for the ends, whose last observations are
    apart.

    Args:
        obs: What the agent saw before the step, as the task told it, not scaled, float32 `[T, N, O]`.
        action: What it did, as it told the task, which may clamp it, float32 `[T, N, A]`.
        reward: Of the step, float32 `[T, N]`.
        terminated: The task's own end, bool `[T, N]`.
        truncated: The time limit, or an end that is none of the task, bool `[T, N]`.
        valid: False for what is no transition (an accident of the physics, a step that began an episode), bool
            `[T, N]`. An episode whose last step is not valid was cut short by it.
        last_obs: What followed the last step, `[N, O]`: `obs` of the next block's first.
        final_obs: The last observations of the episodes that ended by a transition, `[E, O]`, in the order of
            `final_at`.
        final_at: Where these ended, (step, world), int64 `[E, 2]`, ascending.
        knows_final_obs: False where the simulator does not tell the last observation of an episode: then it is that
            before the step.
    """

    obs: Tensor
    action: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    last_obs: Tensor
    final_obs: Tensor
    final_at: Tensor
    knows_final_obs: bool = True

    @property
    def steps(self) -> int:
        """T."""
        return len(self.obs)

    @property
    def num_env(self) -> int:
        """N."""
        return self.obs.shape[1]

    def next_obs(self) -> Tensor:
        """What each step led to, `[T, N, O]`; what follows a step that is not valid means nothing."""
        followed = torch.cat((self.obs[1:], self.last_obs[None]))
        followed[self.final_at[:, 0], self.final_at[:, 1]] = self.final_obs
        return followed

    def tensors(self) -> dict[str, Tensor]:
        """All of them by name."""
        return {name: getattr(self, name) for name in TENSORS}

    def on_host(self) -> "Block":
        """A copy in ordinary memory, which nobody writes over. Waits for the device."""
        copied = {
            name: tensor.to("cpu", copy=True, memory_format=torch.contiguous_format)
            for name, tensor in self.tensors().items()
        }
        return Block(**copied, knows_final_obs=self.knows_final_obs)


TENSORS = tuple(field.name for field in fields(Block) if field.name != "knows_final_obs")
