"""The learners: the configuration of each kind, and where its code is. Pure data."""

from gmi_drl.config.learners.a3c import A3CConfig
from gmi_drl.config.learners.base import LEARNERS, OUR_PPO, AnyLearnerConfig, LearnerConfig, LearnerEntry
from gmi_drl.config.learners.ppo import PPOConfig
from gmi_drl.config.learners.rsl_rl import RslRlConfig

OurConfig = PPOConfig | A3CConfig
"""The configurations of learners whose policies our agents can run."""

__all__ = [
    "LEARNERS",
    "OUR_PPO",
    "A3CConfig",
    "AnyLearnerConfig",
    "LearnerConfig",
    "LearnerEntry",
    "OurConfig",
    "PPOConfig",
    "RslRlConfig",
]
