"""Moments of the numbers in fields, over all steps of all episodes."""

from collections.abc import Mapping

import torch
from torch import Tensor

MOST = 4096
"""Numbers of a field whose moments are kept; images have more."""


class Moments:
    """Count, mean and sum of squared deviations (M2) of each number of each field of float32.

    Attributes:
        by_field: float64 `[1 + 2 K]`, as a learner's scaling of observations has them: count, means, M2.
    """

    def __init__(self) -> None:
        self.by_field: dict[str, Tensor] = {}

    def add(self, fields: Mapping[str, Tensor]) -> None:
        """Count steps `[T, *shape]` in, exactly (Chan et al. 1979)."""
        for name, value in fields.items():
            if value.dtype != torch.float32 or value[0].numel() > MOST:
                continue
            rows = value.reshape(len(value), -1).double()
            mean = rows.mean(0)
            new = torch.cat((mean.new_full((1,), len(rows)), mean, (rows - mean).square().sum(0)))
            known = self.by_field.get(name)
            self.by_field[name] = new if known is None else _merged(known, new)


def _merged(left: Tensor, right: Tensor) -> Tensor:
    size = (len(left) - 1) // 2
    count, gap = left[0] + right[0], right[1 : 1 + size] - left[1 : 1 + size]
    mean = left[1 : 1 + size] + gap * (right[0] / count)
    m2 = left[1 + size :] + right[1 + size :] + gap.square() * (left[0] * right[0] / count)
    return torch.cat((count.reshape(1), mean, m2))
