"""Sample Factory: APPO, asynchronous as it is by default, one rollout worker per core."""

import sys
import tempfile
from typing import Any

import gymnasium
import settings
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.model.actor_critic import create_actor_critic
from sample_factory.train import make_runner
from settings import Updates, mean, read_arguments

ROLLOUT = 64


class Report(AlgoObserver):
    """Tells of every update. Time counts from the first: its processes take long to start."""

    def __init__(self, seconds: float, samples: int) -> None:
        self.seconds, self.samples = seconds, samples
        self.updates: Updates | None = None

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        """Every iteration takes the samples of one update."""
        if self.updates is None:
            self.updates = Updates(self.seconds)
            self.updates.weights = count_weights(runner)
        returns = [float(value) for value in runner.policy_avg_stats.get("reward", [[]])[0]]
        self.updates.report(training_iteration_since_resume * self.samples, mean(returns))
        if self.updates.is_over:
            runner.cfg.train_for_env_steps = 0  # the runner looks at it next


def count_weights(runner: Runner) -> int:
    """Of the policy and the value, by a network like that of the learner, which is in a process of its own."""
    seen = runner.buffer_mgr.env_info
    network = create_actor_critic(runner.cfg, seen.obs_space, seen.action_space)
    return sum(weights.numel() for weights in network.parameters())


def options(num_env: int, workers: int, samples: int, folder: str, seed: int) -> dict[str, Any]:
    """Its options."""
    per_worker, batch = num_env // workers, samples * settings.MINI_BATCH // settings.SAMPLES
    return {
        "algo": "APPO",
        "env": "Ant-v5",
        "experiment": "ant",
        "train_dir": folder,
        "device": "cpu",
        "seed": seed,
        "async_rl": True,
        "num_workers": workers,
        "num_envs_per_worker": per_worker,
        "worker_num_splits": 2 if per_worker % 2 == 0 else 1,
        "rollout": min(ROLLOUT, samples // num_env),
        "batch_size": batch,
        "num_batches_per_epoch": samples // batch,
        "num_epochs": settings.EPOCHS,
        "use_rnn": False,
        "recurrence": 1,
        "nonlinearity": "elu",
        "actor_critic_share_weights": False,
        "adaptive_stddev": False,
        "policy_initialization": "torch_default",
        "learning_rate": settings.LEARNING_RATE,
        "gamma": settings.GAMMA,
        "gae_lambda": settings.LAMBDA,
        "ppo_clip_ratio": settings.CLIP,
        "value_loss_coeff": settings.VALUE_COEF,
        "exploration_loss_coeff": 0.0,
        "max_grad_norm": settings.MAX_GRAD_NORM,
        "normalize_input": False,
        "normalize_returns": False,
        "value_bootstrap": True,
        "with_wandb": False,
        "stats_avg": 100,
        "save_every_sec": 10**6,
        "decorrelate_envs_on_one_worker": False,
        "set_workers_cpu_affinity": False,
        "max_policy_lag": 1000,
        "encoder_mlp_layers": settings.HIDDEN,
    }


def command_line(values: dict[str, Any]) -> list[str]:
    """The options as Sample Factory reads them."""
    lists = {name: value for name, value in values.items() if isinstance(value, list | tuple)}
    line = [f"--{name}={value}" for name, value in values.items() if name not in lists]
    return [*line, *(word for name, value in lists.items() for word in (f"--{name}", *map(str, value)))]


def make_env(name: str, *args: Any, render_mode: str | None = None, **kwargs: Any) -> gymnasium.Env:
    """As Sample Factory asks for it; its settings have no part in it."""
    settings.register_sleeping()
    return gymnasium.make(name)


def main() -> int:
    """Train for the time given."""
    arguments = read_arguments(__doc__)
    register_env(arguments.env_id, make_env)
    samples = arguments.samples or settings.SAMPLES
    with tempfile.TemporaryDirectory() as folder:
        values = options(arguments.num_env, arguments.runners or settings.CORES, samples, folder, arguments.seed)
        line = command_line(values | {"env": arguments.env_id})
        parser, _ = parse_sf_args(line)
        _, runner = make_runner(parse_full_cfg(parser, line))
        runner.register_observer(Report(arguments.seconds, samples))
        return runner.init() or runner.run()


if __name__ == "__main__":
    sys.exit(main())
