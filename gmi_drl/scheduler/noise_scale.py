"""The gradient noise scale: how many samples a gradient step can use (McCandlish et al. 2018, arXiv 1812.06162).

A gradient over b samples is the true gradient G plus noise whose covariance has the trace S / b. The ratio S / |G|^2
(the paper's "simple" noise scale) is a number of samples. Steps over far fewer samples learn as much from each of them;
steps over far more learn hardly more in all.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Self

from pydantic import Field

from gmi_drl.files import FileModel
from gmi_drl.units import human_count

Squares = Sequence[tuple[float, float]]
"""For each update: the mean squared norm of the gradients of its parts, and the squared norm of their mean."""


class NoiseScale(FileModel):
    """The scale over a short training of a new policy. It grows as a policy gets better."""

    samples: Annotated[float, Field(gt=0)]
    """S / |G|^2, a number of samples."""

    relative_error: Annotated[float, Field(ge=0)] = 0.0
    """Standard error of its logarithm; 0: not known."""

    trained: Annotated[int, Field(ge=0)] = 0
    """Samples of that training."""

    def efficiency(self, batch: float) -> float:
        """What a sample teaches in an update of `batch` samples, as a fraction of what it teaches in a small update.

        By equation 2.7 of the paper a step over B samples gains 1 / (1 + noise / B) of what a step over all samples
        would. So each sample gains 1 / (1 + B / noise) of what it would in a step over few. For PPO the batch is a
        whole update, not a mini-batch: its epochs move the policy within one trust region.
        """
        return 1 / (1 + batch / self.samples)

    @property
    def described(self) -> str:
        """The scale in words."""
        doubt = f", give or take {self.relative_error:.0%}" if self.relative_error else ""
        over = f", over the first {human_count(self.trained)} of a training" if self.trained else ""
        return f"{human_count(self.samples)} samples{doubt}{over}"

    @classmethod
    def estimated(cls, squares: Squares, small: int, large: int, trained: int) -> Self | None:
        """The scale, estimated from squared norms of gradients over `small` and `large` samples (appendix A.1).

        S and |G|^2 are estimated without bias from the means over all updates, then divided. The error is that of the
        jackknife over updates.

        Returns:
            None if the gradient drowns in its noise: `large`, or the number of updates, is too small.
        """
        found = _ratio(squares, small, large)
        if found is None:
            return None
        left_out = [_ratio([*squares[:i], *squares[i + 1 :]], small, large) for i in range(len(squares))]
        logs = [math.log(one) for one in left_out if one is not None]
        if len(logs) < max(2, len(left_out)):  # one update alone decides whether there is an estimate
            return None
        count, mean = len(logs), fmean(logs)
        error = math.sqrt((count - 1) / count * sum((log - mean) ** 2 for log in logs))
        return cls(samples=found, relative_error=error, trained=trained)


def _ratio(squares: Squares, small: int, large: int) -> float | None:
    """S / |G|^2, or None if one of them is not positive."""
    if not squares:
        return None
    of_small, of_large = (fmean(column) for column in zip(*squares, strict=True))
    noise = (of_small - of_large) / (1 / small - 1 / large)
    signal = (large * of_large - small * of_small) / (large - small)
    return noise / signal if noise > 0 and signal > 0 else None
