"""Which windows of a ring are valid, kept on its device: a draw from them waits for nothing."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gmi_drl.replay.windows import Windows

if TYPE_CHECKING:
    from gmi_drl.replay.ring import Ring

AT_ONCE = 65_536
"""Windows that are looked at together."""


class ValidWindows:
    """The complete windows of a ring, of which the valid ones may be drawn.

    Args:
        total: Rows of the ring.
        device: Of the ring.

    Attributes:
        is_valid: Of the window that begins in each row, bool `[total]`; False where none is complete.
    """

    def __init__(self, total: int, device: torch.device) -> None:
        self.is_valid = torch.zeros(total, dtype=torch.bool, device=device)
        self._counts: Tensor | None = None
        self._first = self._end = 0  # the steps whose windows are noted

    def renew(self, ring: "Ring") -> None:
        """Note what has changed since the last call: windows that were written over, then those that are complete now.

        Not more than `AT_ONCE` are held in memory.
        """
        for _ in self.changes(ring):
            pass

    def changes(self, ring: "Ring") -> Iterator[tuple[Tensor, Tensor]]:
        """As `renew`, for a caller that needs the changes, and takes them all.

        Yields:
            The rows in which some of them begin, int64 `[n]`, and whether they are valid, bool `[n]`.
        """
        gone = _rows(ring, max(self._first, ring.first - ring.steps), ring.first)
        new = _rows(ring, max(self._end, ring.first), ring.end)
        self._first, self._end = ring.first, ring.end
        for rows in gone:
            yield rows, self._note(rows, torch.zeros(len(rows), dtype=torch.bool, device=rows.device))
        for rows in new:
            yield rows, self._note(rows, ring.windows_at(rows).is_valid)

    def _note(self, rows: Tensor, is_valid: Tensor) -> Tensor:
        self.is_valid[rows] = is_valid
        self._counts = None
        return is_valid

    def forget(self) -> None:
        """The ring has other steps: the next `renew` notes all of them."""
        self.is_valid.zero_()
        self._counts = None
        self._first = self._end = 0

    def load(self, ring: "Ring", is_valid: Tensor) -> None:
        """Take over what was known of a ring with the same steps."""
        self.is_valid.copy_(is_valid)
        self._counts = None
        self._first, self._end = ring.first, ring.end

    @property
    def counts(self) -> Tensor:
        """How many are valid of the windows up to each row, int32 `[total]`."""
        if self._counts is None:
            self._counts = self.is_valid.cumsum(0, dtype=torch.int32)
        return self._counts

    def find(self, points: Tensor) -> Tensor:
        """The valid windows at points of all of them, each as long as any other.

        Args:
            points: From 0 to below 1, float64 `[n]`.

        Returns:
            The rows in which they begin, int64 `[n]`; of the last row if no window is valid.
        """
        wanted = (points * self.counts[-1]).to(torch.int32)
        return torch.searchsorted(self.counts, wanted, right=True).clamp_(max=len(self.counts) - 1)

    def at(self, ring: "Ring", rows: Tensor) -> Windows:
        """Evaluate the windows in rows `[B]` that were found. If none is valid their rewards are NaN.

        So their losses are no numbers, which ends a training. To raise an error the host would have to wait.
        """
        windows = ring.windows_at(rows)
        windows.reward.masked_fill_(self.counts[-1] == 0, torch.nan)
        return windows


def _rows(ring: "Ring", first: int, end: int) -> Iterator[Tensor]:
    """The rows of all windows that begin with the steps from `first` to before `end`, int64 `[n]` at a time."""
    last = end * ring.num_env
    for key in range(first * ring.num_env, last, AT_ONCE):
        yield torch.arange(key, min(key + AT_ONCE, last), device=ring.device) % ring.total
