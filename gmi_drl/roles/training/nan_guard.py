"""Ends a training whose losses are no numbers any more: it would go on without learning."""

import math
from collections.abc import Mapping

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.errors import GmiError

MOST = 5
"""Iterations in a row without a finite gradient after which a training ends: one may be bad luck, as its steps are
skipped."""


class NanGuard:
    """Counts iterations in which every step of the optimizer was skipped, or a loss was not finite.

    Args:
        learner: The settings that the message names.
    """

    def __init__(self, learner: LearnerConfig) -> None:
        self._learner, self._in_a_row = learner, 0

    def check(self, iteration: int, metrics: Mapping[str, float | str]) -> None:
        """Look at the metrics of an iteration.

        Raises:
            GmiError: after `MOST` such iterations in a row, with the losses and the remedy.
        """
        losses = {name: value for name, value in metrics.items() if name.endswith("_loss") and isinstance(value, float)}
        broken = [name for name, value in losses.items() if not math.isfinite(value)]
        self._in_a_row = self._in_a_row + 1 if broken else 0
        if self._in_a_row < MOST:
            return
        values = ", ".join(f"{name} {value:g}" for name, value in losses.items())
        rate = f"learner.learning_rate (now {metrics.get('learning_rate', math.nan):.3g})"
        scale = f"learner.reward_scale (now {self._learner.reward_scale:g})"
        raise GmiError(
            f"iteration {iteration}: losses were not finite for {MOST} iterations ({values}): lower {rate} or {scale}, "
            "and look for rewards and observations of the task that are too large"
        )
