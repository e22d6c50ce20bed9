"""The configuration of rsl_rl's runner and PPO as a learner of ours."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from gmi_drl.config.learners.base import LearnerConfig
from gmi_drl.config.learners.ppo import PPOConfig
from gmi_drl.config.learners.rsl_rl_file import RslRlSection, algorithm_of, read_rsl_rl_config, unknown_groups
from gmi_drl.config.learners.rsl_rl_keys import RUNNER
from gmi_drl.config.learners.rsl_rl_parts import Algorithm
from gmi_drl.config.settings import RUN
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.spaces import POLICY, PartKind, group_kinds

VECTORS_ONLY = ("MLPModel", "RNNModel")
"""rsl_rl's networks that see vectors alone."""

USUAL_HIDDEN = (256, 256, 256)
"""rsl_rl's default."""


class RslRlConfig(LearnerConfig):
    """rsl-rl-lib's `OnPolicyRunner` on each GMI."""

    kind: Annotated[Literal["rsl_rl"], RUN] = "rsl_rl"

    runner: Annotated[RslRlSection, RUNNER]
    """rsl_rl's `train_cfg`, as `--rsl-rl-config FILE` reads it."""

    @classmethod
    def for_task(cls, task: TaskSpec) -> Self:
        """Our settings for the task in rsl_rl's terms."""
        ours = PPOConfig.for_task(task)
        return cls(runner=runner_config(ours), reward_scale=ours.reward_scale)

    @property
    def horizon(self) -> int:
        """See `LearnerConfig`."""
        return int(self.runner["num_steps_per_env"])

    @property
    def epochs(self) -> int:
        """See `LearnerConfig`; rsl_rl's default if not given."""
        return self._algorithm.num_learning_epochs

    @property
    def minibatches(self) -> int:
        """See `LearnerConfig`; rsl_rl's default if not given."""
        return self._algorithm.num_mini_batches

    @property
    def learning_rate(self) -> float:
        """See `LearnerConfig`; rsl_rl's default if not given."""
        return self._algorithm.learning_rate

    @property
    def hidden(self) -> tuple[int, ...]:
        """See `LearnerConfig`. Convolutions and recurrent layers are not counted."""
        both = (tuple(network.get("hidden_dims") or USUAL_HIDDEN) for network in self._networks)
        return max(both, key=sum)

    def memory_bytes(self, task: TaskSpec, num_env: int) -> int | None:
        """See `LearnerConfig`. None with groups of observations other than `policy`, or networks other than MLPs.

        Their sizes are not known: other groups, hidden states `[T, N, H]` of recurrent networks, convolutions. Groups
        of the environments that no network uses are stored by rsl_rl, too, and not counted.
        """
        groups = {group for named in self.runner["obs_groups"].values() for group in named}
        others = [network for network in self._networks if network["class_name"] != "MLPModel"]
        return None if others or groups - {"policy"} else super().memory_bytes(task, num_env)

    @property
    def own_logger(self) -> str | None:
        """See `LearnerConfig`."""
        return "learner.runner.logger" if self.runner.get("logger") else None

    def check(self, task: TaskSpec, groups: Collection[str] | None) -> list[str]:
        """See `LearnerConfig`: the groups that its networks use must exist."""
        own = group_kinds(task.observation)
        if groups is None and POLICY not in own:  # parts alone, which are known before the simulator has started
            groups = own
        mistakes = [] if groups is None else unknown_groups(self.runner, groups)
        if task.action.categories:
            mistakes.append(f"{task.name} has actions of categories, which rsl_rl does not have: --algo ppo has them")
        return mistakes + self._blind(own)

    def _blind(self, kinds: Mapping[str, PartKind]) -> list[str]:
        """A sentence for each network that sees an image and is no CNN of rsl_rl's."""
        mistakes = []
        for who, network in (("actor", self.runner["actor"]), ("critic", self.runner["critic"])):
            seen = self.runner["obs_groups"].get(who, ())
            images = [name for name in seen if kinds.get(name) == "image"]
            if images and network["class_name"] in VECTORS_ONLY:
                mistakes.append(
                    f"learner.runner.{who} is an {network['class_name']}, which sees no image ({', '.join(images)}): "
                    "give a CNNModel with cnn_cfg by --rsl-rl-config, or use --algo ppo"
                )
        return mistakes

    @property
    def _networks(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.runner["actor"], self.runner["critic"]

    @property
    def _algorithm(self) -> Algorithm:
        return algorithm_of(self.runner)


def read_over(learner: RslRlConfig, path: Path) -> dict[str, Any]:
    """The settings in a file of rsl_rl, for the argument `over` of `config.run_config.apply_settings`.

    Raises:
        UsageError: if it is not such a file.
    """
    runner, settings = read_rsl_rl_config(path)
    return {**settings, "learner": learner.model_dump() | {"runner": runner}}


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
