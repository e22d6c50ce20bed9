"""Windows of recorded episodes, as a ring gives them: for learners that learn from both."""

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.episodes import EpisodeSet
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.windows import n_step_return

NEXT_OBS = "next/obs"


class OfflineWindows:
    """Draws windows of n steps from every `ranks`-th episode, each window as likely as any other.

    A window is shorter where its episode ends. Where that was cut off, and what followed is not known, windows that
    reach the end are left out.

    Args:
        episodes: With fields `obs` and `action`.
        n_step: Steps of a window.
        gamma: Discount of a step.
        rank: The episodes `rank`, `rank + ranks`, and so on are drawn from.
        ranks: How many share the episodes.
        seed: Of what is drawn.

    Raises:
        UsageError: if these episodes have no window.
    """

    def __init__(
        self, episodes: EpisodeSet, *, n_step: int, gamma: float, rank: int = 0, ranks: int = 1, seed: int = 0
    ) -> None:
        self._episodes, self._n_step, self._gamma = episodes, n_step, gamma
        own = torch.arange(rank, len(episodes), ranks)
        self._first, self._lengths = episodes.first[own], episodes.lengths[own]
        terminated = episodes.storage.rows.fields["terminated"][self._first + self._lengths - 1]
        self._is_terminated = terminated
        knows_end = terminated | episodes.knows_last[own]
        self._ends = torch.where(knows_end, self._lengths, (self._lengths - n_step).clamp(min=0)).cumsum(0)
        if not len(own) or not int(self._ends[-1]):
            raise UsageError(f"{episodes.folder}: {len(own)} episodes have no window of {n_step} steps")
        self.generator = torch.Generator().manual_seed(seed)
        self._step: Rows | None = None
        self._following: Rows | None = None

    @property
    def windows(self) -> int:
        """How many may be drawn."""
        return int(self._ends[-1])

    @property
    def rows(self) -> tuple[Rows, None]:
        """The memory of the first steps of the last windows."""
        assert self._step is not None
        return self._step, None

    def draw(self, count: int) -> dict[str, Tensor]:
        """Draw windows with replacement. The next call of as many writes over them.

        Returns:
            `[count, *shape]` of `obs`, `action`, `reward` (the discounted sum over the window), `discount` of what
            follows (0 after a termination), and `next/obs`.
        """
        windows = torch.randint(self.windows, (count,), generator=self.generator)
        number = torch.searchsorted(self._ends, windows, right=True)
        before = torch.where(number > 0, self._ends[number - 1], 0)
        start = windows - before
        steps = (self._lengths[number] - start).clamp(max=self._n_step)
        place = self._first[number] + start
        storage = self._episodes.storage
        self._step = storage.gather(place, out=self._step)
        self._following = storage.gather((place + steps).clamp_(max=storage.steps - 1), out=self._following)
        step, following = self._step.fields, self._following.fields
        is_end = (start + steps == self._lengths[number]) & self._is_terminated[number]
        places = (place[:, None] + torch.arange(self._n_step)).clamp_(max=storage.steps - 1)
        reward, discount = n_step_return(storage.rows.fields["reward"][places], steps, ~is_end, self._gamma)
        fields = {"obs": step["obs"][:, 0], "action": step["action"][:, 0], NEXT_OBS: following["obs"][:, 0]}
        return fields | {"reward": reward, "discount": discount}
