"""What experience consists of: the kinds that travel in channels and lie in files. Pure data (paper section 4.2)."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Literal

LINE_BYTES = 64
"""Kinds begin at a cache line of their own."""

FACTS = ("version", "sim_s", "act_s", "wait_s", "fetch_s")
"""What an agent tells of a rollout beside what its worlds met.

The version of the policy that acted; seconds of simulating, acting, waiting for room, and of taking that version.
"""

NUM_FACTS = len(FACTS)

NumberKind = Literal["float32", "float64"]
_SIZES: dict[NumberKind, int] = {"float32": 4, "float64": 8}


@dataclass(frozen=True)
class Kind:
    """One kind of experience, a channel's content.

    Args:
        name: What it is called, in channels and files.
        shape: Of one rollout; `[T, N, ...]` where it grows with every control step.
        is_stepwise: Whether every control step adds its own `[N, ...]`; else it is whole when the rollout is.
        dtype: Of its numbers.
    """

    name: str
    shape: tuple[int, ...]
    is_stepwise: bool = True
    dtype: NumberKind = "float32"

    @property
    def nbytes(self) -> int:
        """Of one rollout."""
        return prod(self.shape) * _SIZES[self.dtype]


@dataclass(frozen=True)
class RolloutForm:
    """The sizes of one rollout, and so what experience is made of.

    Args:
        horizon: T, control steps.
        num_env: N, worlds.
        num_obs: O, length of an observation.
        num_actions: A, length of an action.
        num_terms: K, terms of the reward that are told.
    """

    horizon: int
    num_env: int
    num_obs: int
    num_actions: int
    num_terms: int = 0

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """What is needed to learn from a rollout off-policy; observations are raw.

        `log_prob` is that of the policy that acted; `bootstrap` the value that follows a time-out, 0 elsewhere;
        `delta` what the observations add to the normaliser, `sums` as of `algo.rollout.Rollout`.
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
        """Of a rollout, without what lies between its kinds."""
        return sum(kind.nbytes for kind in self.kinds)

    def offsets(self, places: int) -> tuple[int, ...]:
        """Where each kind begins in memory for so many rollouts side by side, kind after kind `[places, ...]`.

        One more number than kinds: the last is the end.
        """
        sizes = (-(-places * kind.nbytes // LINE_BYTES) * LINE_BYTES for kind in self.kinds)
        return tuple(accumulate(sizes, initial=0))
