"""RLlib: PPO of the new API stack, one env runner per core, the learner in the driver's process.

With `--nodes N` on a cluster of so many node daemons on this machine, among which the cores are divided. With
`--learners N`, more than one, each learner is a process, and has its part of the samples.
"""

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import ray
import settings
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env
from settings import Updates, read_arguments


def make_env(config: dict[str, str]) -> gymnasium.Env:
    """The environment, in a process of a runner."""
    settings.register_sleeping()
    return gymnasium.make(config["name"])


def make_config(arguments: argparse.Namespace, runners: int, learners: int) -> PPOConfig:
    """The environments over so many runners, which divide them."""
    samples = arguments.samples or settings.SAMPLES
    horizon = samples // arguments.num_env
    network = DefaultModelConfig(fcnet_hiddens=list(settings.HIDDEN), fcnet_activation="elu", vf_share_layers=False)
    return (
        PPOConfig()
        .environment("made", env_config={"name": arguments.env_id})
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=arguments.num_env // runners,
            rollout_fragment_length=horizon,
        )
        .training(
            train_batch_size_per_learner=horizon * arguments.num_env // learners,
            minibatch_size=samples * settings.MINI_BATCH // settings.SAMPLES // learners,
            num_epochs=settings.EPOCHS,
            lr=settings.LEARNING_RATE,
            gamma=settings.GAMMA,
            lambda_=settings.LAMBDA,
            clip_param=settings.CLIP,
            vf_clip_param=1e9,
            vf_loss_coeff=settings.VALUE_COEF,
            entropy_coeff=0.0,
            use_kl_loss=False,
            grad_clip=settings.MAX_GRAD_NORM,
        )
        .rl_module(model_config=network)
        .learners(num_learners=remote(learners))
        .debugging(seed=arguments.seed)
    )


def count_weights(algorithm: Any) -> int:
    """Of the policy and the value, as a learner has them: the module of those that act has no value."""
    counts = algorithm.learner_group.foreach_learner(
        lambda learner: sum(weights.numel() for weights in learner.module["default_policy"].parameters())
    )
    first = next(iter(counts))
    return int(getattr(first, "get", lambda: first)())


def remote(learners: int) -> int:
    """Learners in processes of their own: a single one is in the driver's."""
    return learners if learners > 1 else 0


@contextmanager
def joined(nodes: int, runners: int = settings.CORES, learners: int = 1) -> Iterator[None]:
    """Be the driver of a cluster of our own; one node has room for so many runners and learners."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  (Ray's name; its 15 gives way to all else, ours do not)
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:  # short: it holds sockets
        if nodes == 1:
            size = {"num_cpus": runners + 1 + remote(learners), "object_store_memory": 300 * 2**20}
            ray.init(address="local", include_dashboard=False, _temp_dir=folder, **size, **quiet)
            yield
            ray.shutdown()
            return
        from ray.cluster_utils import Cluster

        os.environ["RAY_TMPDIR"] = folder
        cluster = Cluster()
        for _ in range(nodes):
            cluster.add_node(num_cpus=settings.CORES // nodes, object_store_memory=150 * 2**20, include_dashboard=False)
        ray.init(address=cluster.address, **quiet)
        yield
        ray.shutdown()
        cluster.shutdown()


def main() -> None:
    """Train for the time given."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--learners", type=int, default=1)
    more, sys.argv[1:] = parser.parse_known_args()
    arguments = read_arguments(__doc__)
    torch.set_num_threads(arguments.threads)
    runners = arguments.runners or settings.CORES
    register_env("made", make_env)
    with joined(more.nodes, runners, more.learners):
        algorithm = make_config(arguments, runners, more.learners).build_algo()
        updates, env_steps = Updates(arguments.seconds), 0
        updates.weights = count_weights(algorithm)
        while not updates.is_over:
            result = algorithm.train()["env_runners"]
            env_steps += int(result["num_env_steps_sampled"])
            value = result.get("episode_return_mean")
            updates.report(env_steps, None if value is None or value != value else float(value))
        algorithm.stop()


if __name__ == "__main__":
    main()
