"""What learns: the configuration of each kind of learner, and where its code is. Pure data."""

from gmi_drl.config.learners.a3c import A3CConfig
from gmi_drl.config.learners.base import LEARNERS, OUR_PPO, AnyLearnerConfig, LearnerConfig, LearnerEntry
from gmi_drl.config.learners.ppo import PPOConfig
from gmi_drl.config.learners.rsl_rl import RslRlConfig

OurConfig = PPOConfig | A3CConfig
"""Of learners whose policy an agent of ours acts by."""

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
