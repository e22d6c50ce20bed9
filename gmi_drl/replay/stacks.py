"""Stacks of the newest pictures, of which a ring stores each picture once: a gather makes the stacks again."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Field
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.storage import Storage

Padding = Literal["first", "zeros"]
"""What the first stack of an episode has before its first picture: that picture again, or zeros."""

BEGINS = 255
"""An age after which a stack begins anew: one more is 0, as uint8."""


class Stack:
    """A field `[K, *picture]` of which rows have the newest picture, the last one, in a column of its own.

    Whether a stack goes on with the pictures of the step before is seen by comparing both, so that no stack has
    pictures of another episode, however the simulator ends episodes.

    Args:
        field: As steps have it.
        padding: What stacks begin with.
        num_env: N.
        device: Of the ring.

    Attributes:
        depth: K.
        age: Pictures before the newest that are of the same episode, K - 1 at most, uint8 `[N]`; of the newest step,
            and `BEGINS` before the first.
        last: The newest stacks, `[N, K, *picture]`; like `age` on the device that steps come from, once there is one.
    """

    def __init__(self, field: Field, padding: Padding, num_env: int, device: torch.device) -> None:
        if len(field.shape) < 2 or not 2 <= field.shape[0] <= BEGINS:
            raise UsageError(f"{field} is no stack: a stack has 2 to 255 pictures, and is [pictures, *picture]")
        self.name, self.depth, self._padding, self._num_env = field.name, field.shape[0], padding, num_env
        self.column, self.age_name = f"stack/{field.name}", f"age/{field.name}"
        self._picture = Field(field.name, field.shape[1:], field.dtype, self.column)
        self.last = torch.zeros((num_env, *field.shape), dtype=field.dtype, device=device)
        self.age = torch.full((num_env,), BEGINS, dtype=torch.uint8, device=device)
        self._back = torch.arange(self.depth - 1, -1, -1, device=device)
        self._is_checked = False

    def fields(self, outcome: str) -> tuple[Field, Field]:
        """What rows have of it: the picture, and its age in the column `outcome`."""
        return self._picture, Field(self.age_name, (), torch.uint8, outcome)

    def added(self, stacks: Tensor) -> dict[str, Tensor]:
        """What to write for the stacks `[N, K, *picture]` of a step.

        Raises:
            UsageError: if the first stacks do not begin as they should. It waits for the device, once.
        """
        if not self._is_checked:
            self._check(stacks)
        if stacks.device != self.last.device:
            self.last, self.age = self.last.to(stacks.device), self.age.to(stacks.device)
        goes_on = (stacks[:, :-1] == self.last[:, 1:]).flatten(1).all(1)
        self.age = (self.age + 1).clamp_(max=self.depth - 1).mul_(goes_on)
        self.last.copy_(stacks)
        return {self.name: stacks[:, -1], self.age_name: self.age}

    def gather(self, storage: Storage, rows: Tensor, ages: Tensor, total: int, out: Rows | None) -> Rows:
        """Make the stacks of steps again.

        Args:
            storage: Of the ring.
            rows: Of the steps, int64 `[B]`.
            ages: Of the steps, uint8 `[B]`.
            total: Rows of the ring.
            out: Of an earlier call, which is written over.

        Returns:
            Rows `[B x K, 1]`; `view` has the stacks.
        """
        age = ages.to(torch.int64)[:, None]
        places = (rows[:, None] - torch.minimum(self._back, age) * self._num_env) % total
        found = storage.gather(places.flatten(), columns=(self.column,), out=out)
        if self._padding == "zeros":
            found.words[self.column].masked_fill_((self._back > age).flatten()[:, None, None], 0)
        return found

    def view(self, found: Rows) -> Tensor:
        """The stacks `[B, K, *picture]` in what `gather` has returned."""
        return found.fields[self.name].view(-1, self.depth, *self._picture.shape)

    def _check(self, stacks: Tensor) -> None:
        newest = stacks[:, -1:]
        begin = newest.expand_as(stacks[:, 1:]) if self._padding == "first" else torch.zeros_like(stacks[:, 1:])
        if not torch.equal(stacks[:, :-1], begin):
            wanted = "their first picture alone" if self._padding == "first" else "zeros before their first picture"
            raise UsageError(
                f"the first stacks of {self.name} have not {wanted}, newest last: take another padding, or none"
            )
        self._is_checked = True

    def forget(self) -> None:
        """The next stacks begin anew, whatever they look like: the steps before are of other environments."""
        self.age.fill_(BEGINS)

    def state_dict(self) -> dict[str, Tensor]:
        """What the next step is compared with."""
        return {"last": self.last, "age": self.age}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a `state_dict`."""
        self.last.copy_(state["last"])
        self.age.copy_(state["age"])
        self._is_checked = True
