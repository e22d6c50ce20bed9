"""Which worlds tell finite numbers, how large these may be, and the words for those that are not."""

import warnings

import torch
from torch import Tensor

from gmi_drl.errors import GmiWarning

LARGEST = 1e6
"""The most that observations and rewards of other people's simulators may be in size.

What robots measure is below. A sensor without a reading may tell float32's largest number, whose square is infinite;
and of a constant number beyond this a mean in float32 (rsl_rl's) is off by more than it adds to a deviation (0.01).
"""

_WEIGHT = 2.0**-64  # 2**63 times float32's largest number, weighed so, still add up to a float32


def finite_weights(num_obs: int, device: torch.device) -> Tensor:
    """What `weighed_sums` takes for observations of this length, `[O]`."""
    return torch.full((num_obs,), _WEIGHT, dtype=torch.float32, device=device)


def weighed_sums(obs: Tensor, weights: Tensor, reward: Tensor | None = None) -> Tensor:
    """A sum `[N]` of all numbers of each world, finite exactly where these are: it cannot overflow, as others can.

    Args:
        obs: Float32 `[N, O]`.
        weights: `finite_weights`.
        reward: Float32 `[N]`, added unless None.
    """
    return obs.mv(weights) if reward is None else torch.addmv(reward, obs, weights)


class Notices:
    """Warns of a world's odd numbers: of the first that is not finite and of the first beyond `LARGEST`, once each.

    Args:
        name: Of the task.
    """

    NOT_FINITE = "is not finite, so the world is left out until its next episode"
    TOO_LARGE = (
        f"counts as {LARGEST:g}, beside which a learner cannot tell the sensor's other readings apart: where it means "
        "that there is no reading, let the environment give an end of the sensor's range"
    )

    def __init__(self, name: str) -> None:
        self._name, self._said = name, set[str]()

    def look(self, step: int, obs: Tensor, reward: Tensor | None = None) -> None:
        """Look at raw observations `[N, O]` and rewards `[N]` on the host, told in a step; step 0 is a reset."""
        for follows in (self.NOT_FINITE, self.TOO_LARGE):
            for world, index in self._odd(follows, obs):
                self._warn(f"world {world}, observation {index}: {obs[world, index]:g}", step, follows)
            if reward is not None:
                for (world,) in self._odd(follows, reward):
                    self._warn(f"world {world}, reward: {reward[world]:g}", step, follows)

    def _odd(self, follows: str, numbers: Tensor) -> list[list[int]]:
        """Where the first such number is that is to be told; else empty."""
        if follows in self._said:
            return []
        is_finite = numbers.isfinite()
        is_odd = ~is_finite if follows == self.NOT_FINITE else is_finite & (numbers.abs() > LARGEST)
        found: list[list[int]] = is_odd.nonzero()[:1].tolist()
        return found

    def _warn(self, what: str, step: int, follows: str) -> None:
        self._said.add(follows)
        when = f"in step {step}" if step else "in its first observation"
        warnings.warn(f"{self._name}: {what} {when} {follows} (said once)", GmiWarning, stacklevel=2)
