"""Policy and value networks: encoders of observations, hidden layers, memories, and both heads."""

from gmi_drl.algo.networks.actor_critic import ActorCritic, make_policy

__all__ = ["ActorCritic", "make_policy"]
