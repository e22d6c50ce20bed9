"""A block of experience: consecutive control steps of all environments of a GMI."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class Block:
    """T control steps of N environments, with everything that exact transitions need, on one device.

    A new episode begins in the step that ends the last one, or in the step after, which then is no transition
    (`tasks.Task.step`). So the next observation is `obs` of the next step, except at ends: there it is in `final_obs`.

    Args:
        obs: Observations before the steps, not scaled, float32 `[T, N, O]`.
        action: Actions as given to the task, which may clamp them, float32 `[T, N, A]`.
        reward: Of the step, float32 `[T, N]`.
        terminated: Whether the task ended the episode, bool `[T, N]`.
        truncated: Whether the time limit or anything but the task ended it, bool `[T, N]`.
        valid: False if the step is no transition: it went wrong, or began an episode; bool `[T, N]`. An episode whose
            last step is not valid is incomplete.
        last_obs: Observations after the last step, `[N, O]`: the first `obs` of the next block.
        final_obs: The last observations of the E episodes that ended by a valid step, `[E, O]`.
        final_at: Steps and environments of these ends, int64 `[E, 2]`, ascending.
        knows_final_obs: False if the simulator does not give the last observation of an episode: then `final_obs` is
            the observation before the step.
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
        """Observations after each step, `[T, N, O]`; undefined after a step that is not valid."""
        followed = torch.cat((self.obs[1:], self.last_obs[None]))
        followed[self.final_at[:, 0], self.final_at[:, 1]] = self.final_obs
        return followed

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        return {name: getattr(self, name) for name in TENSORS}

    def on_host(self) -> "Block":
        """A copy on the host. Waits for the device."""
        copied = {
            name: tensor.to("cpu", copy=True, memory_format=torch.contiguous_format)
            for name, tensor in self.tensors().items()
        }
        return Block(**copied, knows_final_obs=self.knows_final_obs)


TENSORS = tuple(field.name for field in fields(Block) if field.name != "knows_final_obs")
