"""The gradient noise scale: how many samples a gradient step can use (McCandlish et al. 2018, arXiv 1812.06162).

A gradient over b samples is the true one, G, and noise whose covariance has the trace S / b. Their ratio S / |G|^2 (the
paper's "simple" noise scale) is a number of samples: steps over far fewer learn as much from each sample, steps over
far more learn hardly more than one of that many.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Self

from pydantic import Field

from gmi_drl.files import FileModel
from gmi_drl.units import human_count

Squares = Sequence[tuple[float, float]]
"""For each update the mean squared norm of its parts' gradients, and that of their mean."""


class NoiseScale(FileModel):
    """As measured over a short training from nothing.

    `samples` is S / |G|^2, `relative_error` the standard error of its logarithm (0: not known), `trained` the samples
    that the training had: the scale grows as a policy gets better.
    """

    samples: Annotated[float, Field(gt=0)]
    relative_error: Annotated[float, Field(ge=0)] = 0.0
    trained: Annotated[int, Field(ge=0)] = 0

    def efficiency(self, batch: float) -> float:
        """What a sample teaches in an update from `batch` samples, against one in an update from few.

        By equation 2.7 of the paper a step over B samples gains 1 / (1 + noise / B) of what one over all samples would,
        so a sample gains 1 / (1 + B / noise) of what it would in a step over few. The batch of PPO is that of a whole
        update, not of a mini-batch: its epochs move the policy within one trust region, however many steps they take.
        """
        return 1 / (1 + batch / self.samples)

    @property
    def described(self) -> str:
        """In words."""
        doubt = f", give or take {self.relative_error:.0%}" if self.relative_error else ""
        over = f", over the first {human_count(self.trained)} of a training" if self.trained else ""
        return f"{human_count(self.samples)} samples{doubt}{over}"

    @classmethod
    def estimated(cls, squares: Squares, small: int, large: int, trained: int) -> Self | None:
        """From the squared norms of gradients over `small` and `large` samples (appendix A.1 of the paper).

        S and |G|^2 are estimated without bias from the means over all updates, and divided only then. The error is by
        the jackknife over updates.

        Returns:
            None where the gradient drowns in its noise: `large` samples, or the updates, are too few to tell.
        """
        found = _ratio(squares, small, large)
        if found is None:
            return None
        left_out = [_ratio([*squares[:i], *squares[i + 1 :]], small, large) for i in range(len(squares))]
        logs = [math.log(one) for one in left_out if one is not None]
        if len(logs) < max(2, len(left_out)):  # without one update nothing would be known
            return None
        count, mean = len(logs), fmean(logs)
        error = math.sqrt((count - 1) / count * sum((log - mean) ** 2 for log in logs))
        return cls(samples=found, relative_error=error, trained=trained)


def _ratio(squares: Squares, small: int, large: int) -> float | None:
    """S / |G|^2, or None where one of them is not positive."""
    if not squares:
        return None
    of_small, of_large = (fmean(column) for column in zip(*squares, strict=True))
    noise = (of_small - of_large) / (1 / small - 1 / large)
    signal = (large * of_large - small * of_small) / (large - small)
    return noise / signal if noise > 0 and signal > 0 else None
