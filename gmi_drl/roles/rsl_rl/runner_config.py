"""Our hyper-parameters in rsl_rl's terms."""

from typing import Any

from gmi_drl.config import PPOConfig


def ppo_arguments(config: PPOConfig) -> dict[str, Any]:
    """Our hyper-parameters as arguments of rsl_rl's PPO."""
    return {
        "num_learning_epochs": config.epochs,
        "num_mini_batches": config.minibatches,
        "clip_param": config.clip,
        "gamma": config.gamma,
        "lam": config.lam,
        "value_loss_coef": config.value_loss_coef,
        "use_clipped_value_loss": config.clip_value_loss,
        "entropy_coef": config.entropy_coef,
        "learning_rate": config.learning_rate,
        "max_grad_norm": config.max_grad_norm,
        "schedule": config.schedule,
        "desired_kl": config.desired_kl,
    }


def runner_config(config: PPOConfig) -> dict[str, Any]:
    """Our networks, normalisation and hyper-parameters as the configuration of rsl_rl's `OnPolicyRunner`."""
    network = {
        "class_name": "MLPModel",
        "hidden_dims": list(config.hidden),
        "activation": config.activation,
        "obs_normalization": True,
    }
    gaussian = {"class_name": "GaussianDistribution", "init_std": config.init_std, "std_type": "log"}
    return {
        "num_steps_per_env": config.horizon,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**network, "distribution_cfg": gaussian},
        "critic": dict(network),
        "algorithm": {"class_name": "PPO", **ppo_arguments(config)},
    }
