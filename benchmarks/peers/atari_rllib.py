"""RLlib's PPO on an Atari game of ale-py, by given settings: the new API stack, `runners` env runners.

Its convolutions pad unless told `valid`: then they have as many weights as those of the others. Its heads share no
layer after them, so its value has a hidden layer of its own, 1,606,144 weights more than the others.
"""

from typing import Any

import ale_py
import gymnasium
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack
from ray.tune.registry import register_env
from settings import read_settings, updates_of
from train_rllib import count_weights, joined, remote

FRAMES = 4


def make_env(config: dict[str, str]) -> gymnasium.Env:
    """A game with RLlib's own wrappers."""
    gymnasium.register_envs(ale_py)
    game = gymnasium.make(f"ALE/{config['game']}", frameskip=1, repeat_action_probability=0.0)
    return wrap_atari_for_new_api_stack(game, dim=84, frameskip=4, framestack=FRAMES)


def make_config(given: dict[str, Any], num_env: int, seed: int) -> PPOConfig:
    """The settings as RLlib's."""
    runners, learners = given["runners"], given.get("learners", 1)
    network = DefaultModelConfig(
        conv_filters=[[*layer, "valid"] for layer in given["conv"]],
        conv_activation="relu",
        head_fcnet_hiddens=[given["features"]],
        head_fcnet_activation="relu",
        vf_share_layers=True,
    )
    return (
        PPOConfig()
        .environment("game", env_config={"game": given["env_id"]}, clip_rewards=True)
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=num_env // runners,
            rollout_fragment_length=given["horizon"],
        )
        .training(
            train_batch_size_per_learner=given["horizon"] * num_env // learners,
            minibatch_size=given["batch"] // learners,
            num_epochs=given["epochs"],
            lr=given["learning_rate"],
            gamma=given["gamma"],
            lambda_=given["lam"],
            clip_param=given["clip"],
            vf_clip_param=1e9,
            vf_loss_coeff=given["value"],
            entropy_coeff=given["entropy"],
            use_kl_loss=False,
            grad_clip=given["max_grad_norm"],
        )
        .rl_module(model_config=network)
        .learners(num_learners=remote(learners))
        .debugging(seed=seed)
    )


def main() -> None:
    """Train for the time given."""
    arguments = read_settings(__doc__)
    torch.set_num_threads(arguments.threads)
    register_env("game", make_env)
    with joined(1, arguments.settings["runners"], arguments.settings.get("learners", 1)):
        algorithm = make_config(arguments.settings, arguments.num_env, arguments.seed).build_algo()
        updates, env_steps = updates_of(arguments), 0
        updates.weights = count_weights(algorithm)
        while not updates.is_over:
            result = algorithm.train()["env_runners"]
            env_steps += int(result["num_env_steps_sampled"])
            value = result.get("episode_return_mean")
            updates.report(env_steps, None if value is None or value != value else float(value))
        algorithm.stop()


if __name__ == "__main__":
    main()
