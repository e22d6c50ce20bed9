"""Which environments returned finite numbers, how large numbers may be, and the warnings about those that are not."""

import warnings

import torch
from torch import Tensor

from gmi_drl.errors import GmiWarning

LARGEST = 1e6
"""Bound of observations and rewards of other libraries' simulators, in absolute value.

Robots measure smaller numbers. A sensor without a reading may return float32's largest number, whose square is
infinite. A mean in float32 (rsl_rl's) over a constant number larger than this bound is off by more than 0.01, which
rsl_rl adds to a deviation.
"""

_WEIGHT = 2.0**-64  # with this weight 2**63 times float32's largest number still fits in a float32


def finite_weights(num_obs: int, device: torch.device) -> Tensor:
    """The weights `[O]` that `weighed_sums` takes for observations of this length."""
    return torch.full((num_obs,), _WEIGHT, dtype=torch.float32, device=device)


def weighed_sums(obs: Tensor, weights: Tensor, reward: Tensor | None = None) -> Tensor:
    """A weighted sum `[N]` over each environment. It is finite exactly where all its numbers are: it never overflows.

    Args:
        obs: Float32 `[N, O]`.
        weights: `finite_weights`.
        reward: Float32 `[N]`, added unless None.
    """
    return obs.mv(weights) if reward is None else torch.addmv(reward, obs, weights)


class Notices:
    """Warns once of the first number that is not finite, and once of the first beyond `LARGEST`.

    Args:
        name: The task's name.
    """

    NOT_FINITE = "is not finite, so the environment is left out of training until its next episode"
    FORBIDS_ALL = "allows no action, so the environment is left out of training until its next episode"
    TOO_LARGE = (
        f"was clamped to {LARGEST:g}. Beside such a number a learner cannot tell the sensor's other readings apart: "
        "if it means that there is no reading, let the environment return an end of the sensor's range"
    )

    def __init__(self, name: str) -> None:
        self._name, self._warned = name, set[str]()

    def look(self, step: int, obs: Tensor, reward: Tensor | None = None) -> None:
        """Check raw observations `[N, O]` and rewards `[N]`, on the host. Step 0 is a reset."""
        for kind in (self.NOT_FINITE, self.TOO_LARGE):
            for env, index in self._first(kind, obs):
                self._warn(f"environment {env}, observation {index}: {obs[env, index]:g}", step, kind)
            if reward is not None:
                for (env,) in self._first(kind, reward):
                    self._warn(f"environment {env}, reward: {reward[env]:g}", step, kind)

    def tell_forbidden(self, step: int, allows: Tensor) -> None:
        """Warn of the first environment whose mask allows nothing; `allows [N]` on the host."""
        if self.FORBIDS_ALL not in self._warned:
            self._warn(f"environment {int((~allows).nonzero()[0])}, the mask", step, self.FORBIDS_ALL)

    def _first(self, kind: str, numbers: Tensor) -> list[list[int]]:
        """The indices of the first number of this kind; empty if there is none, or one was warned of before."""
        if kind in self._warned:
            return []
        is_finite = numbers.isfinite()
        is_odd = ~is_finite if kind == self.NOT_FINITE else is_finite & (numbers.abs() > LARGEST)
        found: list[list[int]] = is_odd.nonzero()[:1].tolist()
        return found

    def _warn(self, what: str, step: int, kind: str) -> None:
        self._warned.add(kind)
        when = f"in step {step}" if step else "in its first observation"
        warnings.warn(f"{self._name}: {what} {when} {kind} (warned once)", GmiWarning, stacklevel=2)
