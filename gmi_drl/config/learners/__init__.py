"""The learners: the configuration of each kind, and where its code is. Pure data."""

from gmi_drl.config.learners.a3c import A3CConfig
from gmi_drl.config.learners.base import AnyLearnerConfig, LearnerConfig
from gmi_drl.config.learners.dqn import DQNConfig
from gmi_drl.config.learners.entries import LEARNERS, OUR_PPO, LearnerEntry
from gmi_drl.config.learners.off_policy import OffPolicyConfig
from gmi_drl.config.learners.ppo import PPOConfig
from gmi_drl.config.learners.rsl_rl import RslRlConfig
from gmi_drl.config.learners.sac import SACConfig
from gmi_drl.config.learners.sequence import SequenceConfig

OurConfig = PPOConfig | A3CConfig
"""The configurations of learners with a policy and a value network."""

__all__ = [
    "LEARNERS",
    "OUR_PPO",
    "A3CConfig",
    "AnyLearnerConfig",
    "DQNConfig",
    "LearnerConfig",
    "LearnerEntry",
    "OffPolicyConfig",
    "OurConfig",
    "PPOConfig",
    "RslRlConfig",
    "SACConfig",
    "SequenceConfig",
]
