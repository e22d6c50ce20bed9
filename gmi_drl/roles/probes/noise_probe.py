"""The probe of the gradient noise scale of our PPO."""

from typing import Any

from gmi_drl.algo.gradient_squares import GradientSquares
from gmi_drl.algo.rollout import Rollout
from gmi_drl.roles.probes.ppo_probe import PPOProbe
from gmi_drl.roles.training.iteration_stats import IterationStats
from gmi_drl.roles.training.learner import Learner

PARTS = 16
"""Parts of a rollout: comparing gradients over a part and over the whole separates noise from signal."""


class NoiseLearner(Learner):
    """Measures the gradient noise of every rollout before it learns from it. Alone in its group."""

    squares: GradientSquares

    def update(self, rollout: Rollout, stats: IterationStats) -> None:
        """See `Learner`."""
        if not hasattr(self, "squares"):
            self.squares = GradientSquares(self.updater, PARTS)
        self.squares.measure(rollout, self.shuffled(rollout), stats.advantage_mean, stats.advantage_std)
        super().update(rollout, stats)


class NoiseProbe(PPOProbe):
    """Trains alone in its group. Reports the speed, and the squared gradient norms of all its updates."""

    learner_class = NoiseLearner

    def _measure(self, num_env: int, seconds: float) -> dict[str, Any]:
        speed = super()._measure(num_env, seconds)
        assert self.replica is not None and isinstance(self.replica.learner, NoiseLearner)
        samples = num_env * self.replica.slot.rollout.horizon
        squares = self.replica.learner.squares.read()
        return {**speed, "squares": squares, "small": samples // PARTS, "large": samples // PARTS * PARTS}
