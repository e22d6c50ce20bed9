"""Sample Factory's APPO on an Atari game of ale-py, by given settings, with `runners` rollout workers."""

import sys
import tempfile
from typing import Any

import ale_py
import gymnasium
import numpy as np
from gymnasium.wrappers import AtariPreprocessing, ClipReward, FrameStackObservation
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner
from settings import Updates, mean, read_settings, updates_of
from train_sample_factory import command_line, count_weights, options

FRAMES = 4


class Report(AlgoObserver):
    """Tells of every update. Time counts from the first: its processes take long to start."""

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments
        self.updates: Updates | None = None

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        """Every iteration takes the samples of one update."""
        if self.updates is None:
            self.updates = updates_of(self.arguments)
            self.updates.weights = count_weights(runner)
        samples = self.arguments.settings["samples"]
        returns = [float(value) for value in runner.policy_avg_stats.get("reward", [[]])[0]]
        self.updates.report(training_iteration_since_resume * samples, mean(returns))
        if self.updates.is_over:
            runner.cfg.train_for_env_steps = 0  # the runner looks at it next


def make_env(name: str, *args: Any, render_mode: str | None = None, **kwargs: Any) -> gymnasium.Env:
    """A game with gymnasium's wrappers, as Sample Factory asks for it."""
    gymnasium.register_envs(ale_py)
    game = gymnasium.make(f"ALE/{name}", frameskip=1, repeat_action_probability=0.0)
    return ClipReward(
        FrameStackObservation(AtariPreprocessing(game, terminal_on_life_loss=True), FRAMES), np.float32(-1), 1.0
    )


def changed(given: dict[str, Any]) -> dict[str, Any]:
    """The options that the settings and the pictures ask for."""
    return {
        "env": given["env_id"],
        "rollout": given["horizon"],
        "batch_size": given["batch"],
        "num_batches_per_epoch": given["samples"] // given["batch"],
        "num_epochs": given["epochs"],
        "nonlinearity": "relu",
        "actor_critic_share_weights": True,
        "encoder_conv_architecture": "convnet_atari",
        "encoder_conv_mlp_layers": [given["features"]],
        "encoder_mlp_layers": [],
        "obs_scale": 255.0,
        "learning_rate": given["learning_rate"],
        "ppo_clip_ratio": given["clip"],
        "exploration_loss_coeff": given["entropy"],
    }


def main() -> int:
    """Train for the time given."""
    arguments = read_settings(__doc__)
    given = arguments.settings
    register_env(given["env_id"], make_env)
    with tempfile.TemporaryDirectory() as folder:
        values = options(arguments.num_env, given["runners"], given["samples"], folder, arguments.seed)
        line = command_line(values | changed(given))
        parser, _ = parse_sf_args(line)
        _, runner = make_runner(parse_full_cfg(parser, line))
        runner.register_observer(Report(arguments))
        return runner.init() or runner.run()


if __name__ == "__main__":
    sys.exit(main())
