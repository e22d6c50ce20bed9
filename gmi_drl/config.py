"""The run's configuration: hyper-parameters and how the run is kept (`config.yaml`)."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, load_yaml, parse
from gmi_drl.physics import Physics
from gmi_drl.rsl_rl_config import RslRlSection, learning_rate_of, minibatches_of
from gmi_drl.workload import TaskSpec
from gmi_drl.yaml_text import read_yaml

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Activation = Literal["elu", "tanh"]


class PPOConfig(FileModel):
    """Proximal policy optimisation (Schulman et al., arXiv 1707.06347), with rsl_rl's names where they agree.

    The defaults of `init_std` and `desired_kl` were the fastest of a few tried on Ant, one run each: more noise is
    mostly clipped away by the limits of the actions, and the KL of one mini-batch is too noisy for 0.01. A task may
    have others.

    `horizon` is the paper's m: control steps per world before each training. `minibatches` is per epoch.
    `bootstrap` says what follows a time-out: the value of the observation before the reset (`final_obs`), or
    rsl_rl's approximation by the value one step earlier (`last_value`). `hidden` are the widths of the hidden layers of
    the policy and of the value network, `activation` follows each. A new run gets its task's `hidden`, `reward_scale`,
    `init_std`, `minibatches`, `epochs` and `desired_kl`.
    """

    hidden: Annotated[tuple[Count, ...], Field(min_length=1)] = (256, 128, 64)
    activation: Activation = "elu"
    horizon: Count = 16
    epochs: Count = 4
    minibatches: Count = 4
    learning_rate: Positive = 1e-3
    schedule: Literal["adaptive", "fixed"] = "adaptive"
    desired_kl: Positive = 0.04
    gamma: Fraction = 0.99
    lam: Fraction = 0.95
    clip: Positive = 0.2
    value_loss_coef: Annotated[float, Field(ge=0)] = 1.0
    clip_value_loss: bool = True
    entropy_coef: Annotated[float, Field(ge=0)] = 0.0
    max_grad_norm: Positive = 1.0
    init_std: Positive = 0.3
    reward_scale: Positive = 1.0
    bootstrap: Literal["final_obs", "last_value"] = "final_obs"


class WarpRoom(FileModel):
    """How many contacts (and geoms near each other) and constraint rows MuJoCo Warp has room for in each world.

    None is measured: twice the most that random controls led to, and more.
    """

    nconmax: Count | None = None
    njmax: Count | None = None


class RunConfig(FileModel):
    """A run (`config.yaml`, `version: 1`).

    `time_limit_s` ends the run that many seconds after its start or resumption, whatever `iterations` says. `hang_s` is
    the deadline of every wait for another GMI. Checkpoints come every `checkpoint_every` iterations and at the end.
    `cuda_graphs` replays the kernels of physics, agent and learner as graphs on a GPU. `rsl_rl` is the configuration of
    rsl_rl's runner, for `--algo rsl_rl`; where it is given, `ppo` counts for `reward_scale` only.
    `physics` is MuJoCo on CPU threads (`native`) or MuJoCo Warp on the device (`warp`); None takes Warp on a GPU where
    it is installed, else native. `warp` is Warp's room for contacts, should the measured one be too small.
    """

    version: Literal[1] = 1
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    iterations: Count = 500
    time_limit_s: Positive | None = None
    checkpoint_every: Count = 100
    checkpoints_kept: Count = 2
    hang_s: Positive = 300.0
    cuda_graphs: bool = True
    physics: Physics | None = None
    warp: WarpRoom = WarpRoom()
    ppo: PPOConfig = PPOConfig()
    rsl_rl: RslRlSection | None = None

    @property
    def horizon(self) -> int:
        """Control steps per world before each training."""
        return self.ppo.horizon if self.rsl_rl is None else int(self.rsl_rl["num_steps_per_env"])

    @property
    def minibatches(self) -> int:
        """Mini-batches per epoch."""
        return self.ppo.minibatches if self.rsl_rl is None else minibatches_of(self.rsl_rl)

    @property
    def learning_rate(self) -> float:
        """What the learning rate begins with."""
        return self.ppo.learning_rate if self.rsl_rl is None else learning_rate_of(self.rsl_rl)

    @property
    def networks(self) -> object:
        """What a run keeps for good: it can only go on with the same networks."""
        if self.rsl_rl is None:
            return [self.ppo.hidden, self.ppo.activation]
        return [self.rsl_rl["actor"], self.rsl_rl["critic"]]


def default_config(task: TaskSpec) -> RunConfig:
    """The configuration of a new run of this task."""
    ppo = PPOConfig(
        hidden=task.hidden,
        reward_scale=task.reward_scale,
        init_std=task.init_std,
        minibatches=task.minibatches,
        epochs=task.epochs,
        desired_kl=task.desired_kl,
    )
    return RunConfig(ppo=ppo)


def apply_settings(
    base: RunConfig, settings: Sequence[str], source: str = "--set", over: Mapping[str, Any] = MappingProxyType({})
) -> RunConfig:
    """A copy of `base` with the values of `over` and then `a.b=value` settings applied; these are read as YAML.

    Raises:
        UsageError: with every mistake in the settings.
    """
    data = base.model_dump() | deepcopy(dict(over))
    malformed = [setting for setting in settings if not setting.partition("=")[1] or not setting.partition("=")[0]]
    if malformed:
        raise UsageError(f"{source}: expected KEY=VALUE, e.g. ppo.learning_rate=3e-4, got {', '.join(malformed)}")
    for setting in settings:
        key, _, text = setting.partition("=")
        _put(data, key.strip().split("."), _value(text, setting), source)
    return parse(RunConfig, data, source)


def load_config(path: Path) -> RunConfig:
    """Read a `config.yaml`."""
    return load_yaml(RunConfig, path)


def _value(text: str, setting: str) -> object:
    try:
        return read_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        raise UsageError(f"--set {setting}: the value is not valid YAML") from None


def _put(data: dict[str, Any], path: list[str], value: object, source: str) -> None:
    """Set `data[a][b] = value`; a key that leads into a plain value is a mistake."""
    *parents, last = path
    for depth, part in enumerate(parents, 1):
        child = data.setdefault(part, {})
        if not isinstance(child, dict):
            raise UsageError(f"{source}: {'.'.join(path[:depth])} is a single value, it has no key {path[depth]!r}")
        data = child
    data[last] = value
