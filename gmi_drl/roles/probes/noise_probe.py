"""The probe of the gradient noise scale of our PPO."""

from typing import Any

from gmi_drl.algo.gradient_squares import GradientSquares
from gmi_drl.algo.rollout import Rollout
from gmi_drl.roles.probes.ppo_probe import PPOProbe
from gmi_drl.roles.training.iteration_stats import IterationStats
from gmi_drl.roles.training.learner import Learner

PARTS = 16
"""Of a rollout: gradients over a part and over the whole tell noise from signal."""


class WatchedLearner(Learner):
    """Looks at every rollout before it learns from it. Alone in its group."""

    squares: GradientSquares

    def update(self, rollout: Rollout, stats: IterationStats) -> None:
        """See `Learner`."""
        if not hasattr(self, "squares"):
            self.squares = GradientSquares(self.ppo, PARTS)
        self.squares.look(rollout, self.shuffled(rollout), stats.advantage_mean, stats.advantage_std)
        super().update(rollout, stats)


class NoiseProbe(PPOProbe):
    """Trains, alone, and reports beside the speed the squares of all its updates."""

    learner_class = WatchedLearner

    def _measure(self, num_env: int, seconds: float) -> dict[str, Any]:
        speed = super()._measure(num_env, seconds)
        assert self.replica is not None and isinstance(self.replica.learner, WatchedLearner)
        samples = num_env * self.replica.slot.rollout.horizon
        squares = self.replica.learner.squares.read()
        return {**speed, "squares": squares, "small": samples // PARTS, "large": samples // PARTS * PARTS}
