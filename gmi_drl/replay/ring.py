"""A ring of experience of environments that step together: every valid window of n steps is an item."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.batch import importance_weights
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.limiters import MinSize, RateLimiter, ReplayTimeoutError
from gmi_drl.replay.ring_checks import check_outcomes, check_ring
from gmi_drl.replay.ring_draws import draws_by
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.selectors import Selector, Uniform
from gmi_drl.replay.stacks import Padding, Stack
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.windows import VALID, Windows, evaluate, flags_of

NEXT = "next/"
"""In front of the name of an observation: that after the window."""

_OUTCOME = "outcome"


@dataclass(frozen=True)
class RingBatch:
    """B windows of a ring.

    Args:
        fields: `[B, *shape]`: all fields of the first step but `reward` and `terminated`; `reward`, the discounted sum
            over the window; `discount` of what follows, 0 after a termination; `next/NAME` of each observation.
        keys: For `update`, int64 `[B]`.
        probabilities: With which each was drawn, float64 `[B]`.
        size: Windows that could be drawn, about: those that are not valid count.
        rows: The memory of the fields, for `sample(out=)`.
    """

    fields: dict[str, Tensor]
    keys: Tensor
    probabilities: Tensor
    size: int
    rows: tuple[Rows | None, ...]

    def weights(self, beta: float) -> Tensor:
        """Importance-sampling weights, float32 `[B]`, the largest of which is 1 (Schaul et al. 2015, section 3.4)."""
        return importance_weights(self.probabilities, self.size, beta)


class Ring:
    """The last `steps` steps of `num_env` environments, in rows `[steps, num_env]`: the next step is a stride away.

    One thread uses it. On a GPU nothing waits for the device.

    Args:
        signature: Of a step; `reward` (float32) and `terminated` (bool) are among its fields, all in one column.
        num_env: N.
        steps: Of each environment.
        n_step: Steps of a window, unless its episode ends.
        gamma: Discount of a step.
        observations: Fields of which a batch has those after the window, too.
        sampler: `Uniform()`, or `Prioritized(C)`; a new window has the highest priority so far.
        limiter: Counts steps; None for `MinSize(1)`.
        placement: As of a storage.
        device: Where batches go.
        update_size: Steps that are copied to a GPU at once, with the placement `device`; None for the storage's.
        next_obs: `once` reads the observation after a window from the step that follows. `twice` stores it with each
            step, in fields `next/NAME` that `add` gets; then windows that end by a time limit are there, too.
        stacks: Observations that are stacks of pictures `[K, *picture]`, the newest last, of which the newest alone is
            stored; with what an episode's first stack begins. With `next_obs="once"` only.
        seed: Of what is drawn.

    Raises:
        UsageError: if these do not go together, with the numbers.
        MachineError: if there is not as much memory.
    """

    def __init__(
        self,
        signature: Signature,
        num_env: int,
        steps: int,
        *,
        n_step: int = 1,
        gamma: float = 0.99,
        observations: tuple[str, ...] = ("obs",),
        sampler: Selector | None = None,
        limiter: RateLimiter | None = None,
        placement: str = "cpu",
        device: torch.device | str = "cpu",
        update_size: int | None = None,
        next_obs: Literal["once", "twice"] = "once",
        stacks: Mapping[str, Padding] | None = None,
        seed: int = 0,
    ) -> None:
        check_ring(signature, num_env, steps, n_step, observations, next_obs, stacks or {})
        self.num_env, self.steps, self.n_step, self.gamma = num_env, steps, n_step, gamma
        self.observations, self.is_twice = observations, next_obs == "twice"
        self.signature = signature
        padding, place = stacks or {}, torch.device(device)
        of_stacks = [field for field in signature.fields if field.name in padding]
        self.stacks = [Stack(field, padding[field.name], num_env, place) for field in of_stacks]
        self.depth = max((stack.depth for stack in self.stacks), default=1)
        if n_step + self.depth > steps:
            raise UsageError(f"windows of {n_step} steps with {self.depth} pictures each do not fit into {steps} steps")
        self._plain = [name for name in observations if name not in padding]
        self.limiter = limiter or MinSize(1)
        if self.limiter.min_size > steps * num_env:
            raise UsageError(f"min_size {self.limiter.min_size} is above {steps} steps x {num_env} environments")
        if self.limiter.max_diff < float("inf"):
            text = f"a ring lets no insert wait, but its limiter allows a difference of {self.limiter.max_diff:g}"
            raise UsageError(f"{text} at most: take one without max_diff, such as MinSize")
        stored, total = self._stored(), steps * num_env
        self.storage = make_storage(stored, total, placement=placement, device=device, update_size=update_size)
        self._given = Signature((*signature.fields, *self._following()))
        self._kinds = {field.name: (torch.Size((num_env, *field.shape)), field.dtype) for field in self._given.fields}
        self.device = self.storage.device
        self.written = 0
        self._outcomes: Rows | None = None  # of the last windows that were looked at, whose memory is used again
        self._sampler = str(sampler or Uniform())
        generator = torch.Generator(self.device).manual_seed(seed)
        self._draws = draws_by(sampler or Uniform(), generator, total, self.device)

    @property
    def total(self) -> int:
        """Rows: steps x N."""
        return self.steps * self.num_env

    @property
    def free(self) -> int:
        """Rows that nothing was written to yet."""
        return max(0, self.steps - self.written) * self.num_env

    @property
    def first(self) -> int:
        """The oldest step that is there with all its pictures, counted from the first one ever."""
        return max(0, self.written - self.steps + self.depth - 1)

    @property
    def end(self) -> int:
        """One after the last step at which a window may begin."""
        return max(self.first, self.written - -(-self.storage.pending // self.num_env) - self.n_step + self.is_twice)

    @property
    def windows(self) -> int:
        """Windows that are complete, valid or not."""
        return max(0, self.end - self.first) * self.num_env

    def can_sample(self, count: int) -> bool:
        """Whether the limiter allows `count` samples, and a window is complete."""
        return self.windows > 0 and self.limiter.samples_allowed(count) == count

    def mass(self) -> Tensor:
        """Sum of what windows are drawn by, float64 `[]`: of a uniform ring the number of windows."""
        return self._draws.mass(self)

    def cut(self) -> None:
        """Let no window have the newest step: another one than its own will follow it."""
        self.storage.flush()
        if self.written:
            first = (self.written - 1) % self.steps * self.num_env
            self.storage.rows.fields["flags"][first : first + self.num_env] &= ~VALID & 0xFF

    def add(self, fields: Mapping[str, Tensor], boundary: Tensor, valid: Tensor) -> None:
        """Add a step of all environments, over the oldest one if it is full.

        Args:
            fields: `[N, *shape]` of each field; with `next_obs="twice"` also `next/NAME` of each observation.
            boundary: Whether an episode ended with this step, cut off or `terminated`, bool `[N]`.
            valid: False where the step is no transition, bool `[N]`. With `twice` also False where an episode was cut
                off and its last observation is unknown.

        Raises:
            UsageError: if a field is missing, unknown or of another shape or type; then nothing has changed.
        """
        first = (self.written % self.steps) * self.num_env
        check_outcomes(self.num_env, terminated=fields.get("terminated"), boundary=boundary, valid=valid)
        if {name: (value.shape, value.dtype) for name, value in fields.items()} != self._kinds:
            self._given.check(fields, (self.num_env,))
        stored = {name: value for name, value in fields.items() if name != "terminated"}
        stored["flags"] = flags_of(boundary, fields["terminated"], valid)
        for stack in self.stacks:
            stored |= stack.added(stored[stack.name])
        counters = self.limiter.counters
        if self.written >= self.steps:
            counters.deletes += self.num_env
            self.storage.await_gathers()  # they may read what is written over
        self.storage.write(first, stored)
        counters.inserts += self.num_env
        self.written += 1
        self._draws.renew(self)

    def sample(self, count: int, *, out: RingBatch | None = None) -> RingBatch:
        """Draw `count` windows with replacement.

        Args:
            count: B.
            out: A batch of an earlier call with the same `count`, which is written over.

        Raises:
            ReplayTimeoutError: if the limiter does not allow it, or no window is complete: nothing is waited for.
        """
        if not self.can_sample(count):
            why = self._why(count)
            raise ReplayTimeoutError(f"{count} windows of {self.n_step} steps are not there: {why}")
        self.limiter.counters.samples += count
        keys, rows, probabilities, windows = self._draws.draw(self, count)
        step = self.storage.gather(rows, columns=("step",), out=out.rows[0] if out else None)
        is_again = out is not None and step is out.rows[0]
        fields = dict(out.fields) if out and is_again else {name: value[:, 0] for name, value in step.fields.items()}
        following = None
        if self.n_step > 1 or not self.is_twice:
            places = (rows + (windows.steps - int(self.is_twice)) * self.num_env) % self.total
            following = self.storage.gather(places, columns=("step",), out=out.rows[1] if out else None)
            of = NEXT if self.is_twice else ""
            if out is None or following is not out.rows[1]:
                fields |= {NEXT + name: following.fields[of + name][:, 0] for name in self._plain}
        made = self._make_stacks(fields, torch.cat((rows, places)), out.rows[2:] if out else ()) if self.stacks else ()
        fields |= {"reward": windows.reward, "discount": windows.discount}
        return RingBatch(fields, keys, probabilities, self.windows, (step, following, *made))

    def _make_stacks(self, fields: dict[str, Tensor], rows: Tensor, out: Sequence[Rows | None]) -> list[Rows]:
        """Add stacks to the fields: of the first half of these rows `[2 B]`, and as what follows of the second.

        Returns:
            Their memory, for `out` of the next call.
        """
        again = list(out) or [None] * (1 + len(self.stacks))
        made = [outcome := self.storage.gather(rows, columns=(_OUTCOME,), out=again[0])]
        for stack, had in zip(self.stacks, again[1:], strict=True):
            found = stack.gather(self.storage, rows, outcome.fields[stack.age_name][:, 0], self.total, had)
            stacks, half = stack.view(found), len(rows) // 2
            fields[stack.name], fields[NEXT + stack.name] = stacks[:half], stacks[half:]
            made.append(found)
        return made

    def windows_at(self, rows: Tensor) -> Windows:
        """Evaluate the windows that begin in these rows `[B]`."""
        shape = (len(rows), self.n_step)
        if self.n_step > 1:
            reach = torch.arange(0, self.n_step * self.num_env, self.num_env, device=rows.device)
            rows = ((rows[:, None] + reach) % self.total).flatten()
        self._outcomes = self.storage.gather(rows, columns=(_OUTCOME,), out=self._outcomes)
        outcome = self._outcomes.fields
        reward, flags = outcome["reward"].reshape(shape), outcome["flags"].reshape(shape)
        return evaluate(reward, flags, self.gamma, knows_ends=self.is_twice)

    def update(self, keys: Tensor, priorities: Tensor) -> None:
        """Give windows other priorities `[B]`, 0 or more; outdated keys are ignored. Of a uniform ring: nothing.

        Raises:
            UsageError: if one is negative, no finite number, or so high that its weight is none. On a GPU that would
                wait for it: there negative ones become 0, too high ones the highest that has a weight; NaN stays.
        """
        if len(keys):
            self._draws.updated(self, keys, priorities)

    def info(self) -> dict[str, Any]:
        """Sizes and counts."""
        counters = self.limiter.counters
        sizes = {"steps": min(self.written, self.steps), "num_env": self.num_env, "items": counters.size}
        return sizes | {"inserts": counters.inserts, "samples": counters.samples, "storage": self.storage.info()}

    def close(self) -> None:
        """Free the memory of the steps, where a placement does not free it with the object."""
        self.storage.close()

    def facts(self) -> dict[str, Any]:
        """What must be the same where a state is loaded."""
        return {
            "kind": "ring",
            "signature": self.storage.signature.to_json(),
            "num_env": self.num_env,
            "steps": self.steps,
            "n_step": self.n_step,
            "sampler": self._sampler,
        }

    @contextmanager
    def snapshot(self) -> Iterator[dict[str, Any]]:
        """Everything that later samples depend on: nested dicts of tensors and numbers. They are not copied."""
        self.storage.flush()
        self._draws.renew(self)
        filled = min(self.written, self.steps) * self.num_env
        yield {
            "rows": {column: words[:filled] for column, words in self.storage.rows.words.items()},
            "limiter": self.limiter.state_dict(),
            "draws": self._draws.state_dict(),
            "counts": {"written": self.written},
            **({"stacks": {stack.name: stack.state_dict() for stack in self.stacks}} if self.stacks else {}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a `snapshot` of a ring with the same facts."""
        for column, words in self.storage.rows.words.items():
            words[: len(state["rows"][column])] = state["rows"][column]
        self.limiter.load_state_dict(state["limiter"])
        self.written = state["counts"]["written"]
        for stack in self.stacks:
            stack.load_state_dict(state["stacks"][stack.name])
        self._draws.load_state_dict(state["draws"], self)

    def begin_with(self, rows: Mapping[str, Tensor]) -> None:
        """Begin with steps of other rings in place of its own. The newest are kept; what follows them is not known.

        Args:
            rows: By column, int64 `[T, N, words]`, oldest first; the same columns as a snapshot's.
        """
        count = min(self.steps, *(len(steps) for steps in rows.values()))
        for column, words in self.storage.rows.words.items():
            words[: count * self.num_env].view(count, self.num_env, -1).copy_(rows[column][-count:])
        self.written = count
        self.limiter.load_state_dict({"inserts": count * self.num_env, "samples": 0, "deletes": 0})
        self.storage.rows.fields["flags"][: (self.depth - 1) * self.num_env] &= ~VALID & 0xFF  # they lack pictures
        self.cut()
        for stack in self.stacks:
            stack.forget()
        self._draws.begin(self)

    def _why(self, count: int) -> str:
        if self.limiter.can_sample(count):
            pending = self.storage.pending
            return f"{self.written} steps of {self.num_env} environments were added, {pending} rows wait to be copied"
        return self.limiter.why(count, "samples")

    def _following(self) -> list[Field]:
        """The fields of observations after a step, where steps have them."""
        of = self.signature.by_name
        names = self.observations if self.is_twice else ()
        return [Field(NEXT + name, of[name].shape, of[name].dtype) for name in names]

    def _stored(self) -> Signature:
        """What a row has: the step in one column, reward and flags in another, 8 bytes long."""
        step = [
            Field(field.name, field.shape, field.dtype)
            for field in self.signature.fields
            if field.name not in ("reward", "terminated") and all(field.name != stack.name for stack in self.stacks)
        ]
        step += self._following()
        outcome = [Field("reward", column=_OUTCOME), Field("flags", (), torch.uint8, _OUTCOME)]
        of_stacks = [field for stack in self.stacks for field in stack.fields(_OUTCOME)]
        return Signature((*step, *outcome, *of_stacks))
