"""The kinds of data that experience consists of, in channels and in files. Pure data (paper section 4.2)."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Literal

LINE_BYTES = 64
"""Alignment: each kind begins at a cache line."""

FACTS = ("version", "sim_s", "act_s", "wait_s", "fetch_s")
"""What an agent reports about a rollout besides its experience.

The version of the policy that acted; seconds of simulating, acting, waiting for room, and fetching that version.
"""

NUM_FACTS = len(FACTS)

NumberKind = Literal["float32", "float64"]
_SIZES: dict[NumberKind, int] = {"float32": 4, "float64": 8}


@dataclass(frozen=True)
class Kind:
    """One kind of experience: the content of a channel.

    Args:
        name: Its name in channels and files.
        shape: The shape in one rollout; `[T, N, ...]` if every control step adds to it.
        is_stepwise: Whether every control step adds `[N, ...]`; else it is complete only at the end of the rollout.
        dtype: The type of its numbers.
    """

    name: str
    shape: tuple[int, ...]
    is_stepwise: bool = True
    dtype: NumberKind = "float32"

    @property
    def nbytes(self) -> int:
        """Bytes in one rollout."""
        return prod(self.shape) * _SIZES[self.dtype]


@dataclass(frozen=True)
class RolloutForm:
    """The sizes of one rollout, which decide the kinds and their shapes.

    Args:
        horizon: T, control steps.
        num_env: N, environments.
        num_obs: O, length of an observation.
        num_actions: A, length of an action.
        num_terms: K, reported terms of the reward.
    """

    horizon: int
    num_env: int
    num_obs: int
    num_actions: int
    num_terms: int = 0

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds needed to learn from a rollout off-policy. Observations are raw.

        `log_prob` is that of the policy that acted, `bootstrap` the value after a time-out, 0 elsewhere. `delta` is
        what the observations add to the normaliser; for `sums` see `algo.rollout.Rollout`.
        """
        steps = (self.horizon, self.num_env)
        scalars = (Kind(name, steps) for name in ("log_prob", "reward", "done", "valid", "bootstrap"))
        return (
            Kind("obs", (*steps, self.num_obs)),
            Kind("action", (*steps, self.num_actions)),
            *scalars,
            Kind("last_obs", (self.num_env, self.num_obs), is_stepwise=False),
            Kind("delta", (1 + 2 * self.num_obs,), is_stepwise=False, dtype="float64"),
            Kind("sums", (5 + self.num_terms,), is_stepwise=False, dtype="float64"),
            Kind("facts", (NUM_FACTS,), is_stepwise=False, dtype="float64"),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of a rollout, without padding between its kinds."""
        return sum(kind.nbytes for kind in self.kinds)

    def offsets(self, places: int) -> tuple[int, ...]:
        """The byte offset of each kind in memory for `places` rollouts, kind by kind `[places, ...]`; then the end."""
        sizes = (-(-places * kind.nbytes // LINE_BYTES) * LINE_BYTES for kind in self.kinds)
        return tuple(accumulate(sizes, initial=0))
