"""How tasks of different sizes are seen as one: filled up with zeros, with a one for which task it is."""

from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import pad


def padded_obs(obs: Tensor, number: int, sizes: Sequence[int]) -> Tensor:
    """Observations `[..., O]` of one of K tasks, `[..., max + K]`.

    Args:
        obs: Of task `number`.
        number: From 0.
        sizes: O of each task.
    """
    seen = pad(obs, (0, max(sizes) + len(sizes) - obs.shape[-1]))
    seen[..., max(sizes) + number] = 1.0
    return seen


def padded_action(action: Tensor, sizes: Sequence[int]) -> Tensor:
    """Actions `[..., A]` of one of K tasks, `[..., max]`; `sizes` are those of all."""
    return pad(action, (0, max(sizes) - action.shape[-1]))
