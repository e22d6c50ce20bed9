"""Ends a training whose losses are no numbers any more: it would go on without learning."""

import math
from collections.abc import Mapping

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.errors import GmiError

MOST = 5
"""Iterations in a row without a step after which a training ends, if the learner skips steps with broken gradients."""


class NanGuard:
    """Counts iterations in a row in which nothing was learnt, because a loss was not finite.

    A learner that skips the steps of broken gradients says how many, `skipped_updates`; its weights stay finite. For
    one that skips none a single loss is the end, before its broken weights are saved.

    Args:
        learner: The settings that the message names, and how many steps an iteration has.
    """

    def __init__(self, learner: LearnerConfig) -> None:
        self._learner, self._in_a_row = learner, 0

    def check(self, iteration: int, metrics: Mapping[str, float | str]) -> None:
        """Look at the metrics of an iteration.

        Raises:
            GmiError: after `MOST` such iterations in a row, or one of a learner that skips no steps, with the losses
                and the remedy.
        """
        losses = {name: value for name, value in metrics.items() if name.endswith("_loss") and isinstance(value, float)}
        skipped, steps = metrics.get("skipped_updates"), self._learner.epochs * self._learner.minibatches
        is_broken = not all(map(math.isfinite, losses.values())) and (skipped is None or float(skipped) >= steps)
        self._in_a_row = self._in_a_row + 1 if is_broken else 0
        most = 1 if skipped is None else MOST
        if self._in_a_row < most:
            return
        values = ", ".join(f"{name} {value:g}" for name, value in losses.items())
        rate = f"learner.learning_rate (now {metrics.get('learning_rate', math.nan):.3g})"
        scale = f"learner.reward_scale (now {self._learner.reward_scale:g})"
        raise GmiError(
            f"iteration {iteration}: losses were not finite for {most} iterations ({values}): lower {rate} or {scale}, "
            "and look for rewards and observations of the task that are too large"
        )
