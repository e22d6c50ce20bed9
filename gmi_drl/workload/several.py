"""How several tasks are seen as one: each has numbers of its own in the observations, zeros elsewhere."""

from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import pad


def padded_obs(obs: Tensor, number: int, sizes: Sequence[int]) -> Tensor:
    """Observations `[..., O]` of one of K tasks, `[..., sum(sizes) + K]`; the last K say by a one which task it is.

    Numbers of two tasks share no place, since a learner scales each place by what is seen there: an angle of 0.1
    would be lost beside a speed of 3.

    Args:
        obs: Of task `number`.
        number: From 0.
        sizes: O of each task.
    """
    total, first = sum(sizes), sum(sizes[:number])
    seen = pad(obs, (first, total + len(sizes) - first - obs.shape[-1]))
    seen[..., total + number] = 1.0
    return seen


def padded_action(action: Tensor, sizes: Sequence[int]) -> Tensor:
    """Actions `[..., A]` of one of K tasks, `[..., max]`; `sizes` are those of all."""
    return pad(action, (0, max(sizes) - action.shape[-1]))
