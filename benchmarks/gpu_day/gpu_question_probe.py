"""The role of question 10 of `gpu_questions.py`: a probe that reports whether MPS serves it."""

from typing import Any

from gpu_question_helpers import attached

from gmi_drl.roles.probes.ppo_probe import PPOProbe


class AttachedProbe(PPOProbe):
    """Measures like the probe of `gmi-drl plan`."""

    def _measure(self, num_env: int, seconds: float) -> dict[str, Any]:
        """Add `attached`: whether this GMI is a client of its MPS daemon."""
        return super()._measure(num_env, seconds) | {"attached": attached()}
