"""The kinds of data that experience consists of, in channels and in files. Pure data (paper section 4.2)."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Literal

from gmi_drl.workload.spaces import Action, Observation

LINE_BYTES = 64
"""Alignment: each kind begins at a cache line."""

ANSWERS = ("rows", "rows_p95", "answer_p50_s", "answer_p99_s")
"""Facts about answers: zeros from agents that act for themselves alone.

Observations in the batches that gave the actions of a rollout, mean and 95th percentile; seconds of these answers,
median and 99th percentile.
"""

SERVED = ("answers_wait_s", "requests_wait_s", "versions_wait_s")
"""Facts of actors with a policy worker, zeros from others: seconds that the actor waited for answers, and that the
policy worker waited for requests and for versions of the policy, during the rollout."""

FACTS = ("version", "sim_s", "act_s", "wait_s", "fetch_s", *ANSWERS, *SERVED)
"""What an agent reports about a rollout besides its experience.

The oldest version of the policy that acted; seconds of simulating, acting, waiting for room, and fetching that version;
those of `ANSWERS` and `SERVED`.
"""

NUM_FACTS = len(FACTS)

NumberKind = Literal["float32", "float64", "uint8"]

NextObs = Literal["once", "twice"]
"""How a ring of replay knows what follows a step: by the step after it, or with the step itself."""

_SIZES: dict[NumberKind, int] = {"float32": 4, "float64": 8, "uint8": 1}


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
        observation: What an observation consists of; its shape is `[O]` here, of an image `[C, H, W]`.
        action: What an action consists of; it has A numbers.
        num_terms: K, reported terms of the reward.
        state_size: S, numbers of the state of the policy's memories, of one environment; 0 without memories.
        sequence: L, control steps from one stored state to the next; 0 without memories.
        next_obs: For learners from replay, how they store what follows a step; None for others.
    """

    horizon: int
    num_env: int
    observation: Observation
    action: Action
    num_terms: int = 0
    state_size: int = 0
    sequence: int = 0
    next_obs: NextObs | None = None

    @property
    def states_shape(self) -> tuple[int, int, int]:
        """Of the stored states, `[T / L + 1, N, S]`: at the start of each sequence, and after the last."""
        return self.horizon // self.sequence + 1, self.num_env, self.state_size

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds needed to learn from a rollout off-policy. Observations are raw.

        `log_prob` is that of the policy that acted, `bootstrap` the value after a time-out, 0 elsewhere. Learners from
        replay get `terminated` in place of both, and `next_obs` if they store that with each step. `delta` is what the
        observations add to the normaliser; for `sums` see `algo.rollout.Rollout`. `state` is there with memories alone.
        """
        steps, seen = (self.horizon, self.num_env), self.observation
        states = (Kind("state", self.states_shape, is_stepwise=False),) if self.state_size else ()
        names: tuple[str, ...] = ("log_prob", "reward", "done", "valid", "bootstrap")
        following = (Kind("next_obs", (*steps, *seen.shape), dtype=seen.dtype),) if self.next_obs == "twice" else ()
        if self.next_obs is not None:
            names = ("reward", "done", "valid", "terminated")
        return (
            Kind("obs", (*steps, *seen.shape), dtype=seen.dtype),
            Kind("action", (*steps, self.action.size)),
            *(Kind(name, steps) for name in names),
            *following,
            Kind("last_obs", (self.num_env, *seen.shape), is_stepwise=False, dtype=seen.dtype),
            Kind("delta", (1 + 2 * seen.vector_size,), is_stepwise=False, dtype="float64"),
            Kind("sums", (5 + self.num_terms,), is_stepwise=False, dtype="float64"),
            *states,
            Kind("facts", (NUM_FACTS,), is_stepwise=False, dtype="float64"),
        )

    def steps_of(self, kind: Kind) -> int:
        """The number of steps of a kind: T if it grows with every step, else 1."""
        return self.horizon if kind.is_stepwise else 1

    @property
    def nbytes(self) -> int:
        """Bytes of a rollout, without padding between its kinds."""
        return sum(kind.nbytes for kind in self.kinds)

    def offsets(self, places: int) -> tuple[int, ...]:
        """The byte offset of each kind in memory for `places` rollouts, kind by kind `[places, ...]`; then the end."""
        sizes = (-(-places * kind.nbytes // LINE_BYTES) * LINE_BYTES for kind in self.kinds)
        return tuple(accumulate(sizes, initial=0))
