"""The run's configuration: hyper-parameters and how the run is kept (`config.yaml`)."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import AfterValidator, Field, model_validator

from gmi_drl.config.learners import LEARNERS, OUR_PPO, A3CConfig, AnyLearnerConfig, OurConfig, PPOConfig
from gmi_drl.config.learners.base import Count, Positive
from gmi_drl.config.learners.rsl_rl_keys import RUN_SETTINGS
from gmi_drl.config.physics import Physics
from gmi_drl.config.settings import LIVE, RUN, Setting
from gmi_drl.config.writers import WRITERS
from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, parse, read_mapping
from gmi_drl.workload import TaskSpec
from gmi_drl.yaml_text import read_yaml


def _known_writers(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("a writer is given twice")
    try:
        return tuple(WRITERS.find(name).name for name in names)
    except UsageError as error:  # one that the file can mend
        raise ValueError(str(error)) from None


class WarpRoom(FileModel):
    """How many contacts (and geoms near each other) and constraint rows MuJoCo Warp has room for in each world.

    None is measured: twice the most that random controls led to, and more.
    """

    nconmax: Annotated[Count | None, LIVE] = None
    njmax: Annotated[Count | None, LIVE] = None


class RunConfig(FileModel):
    """A run (`config.yaml`, `version: 2`)."""

    former: ClassVar[Mapping[str, str]] = {
        "ppo": "`learner: {kind: ppo, ...}`, e.g. --set learner.gamma=0.98",
        "rsl_rl": "`learner: {kind: rsl_rl, runner: ...}`, e.g. --set learner.runner.algorithm.gamma=0.98",
    }
    elsewhere: ClassVar[Mapping[str, str]] = {
        "channels": "not of the configuration, which --set sets, but of the layout file, as `channels: {max_lag: 2}`: "
        "have one written by `gmi-drl plan --template decoupled`, edit and train it"
    }
    version: Annotated[Literal[2], Setting(fixed="it is that of the file")] = 2

    seed: Annotated[int, Field(ge=0, lt=2**32), RUN] = 0
    """Of everything random."""

    iterations: Annotated[Count, LIVE] = 500
    """In all."""

    time_limit_s: Annotated[Positive | None, LIVE] = None
    """Ends the run so many seconds after its start or resumption, whatever `iterations` says and restarts happen."""

    checkpoint_every: Annotated[Count, LIVE] = 100
    """Iterations; one comes at the end, too."""

    checkpoints_kept: Annotated[Count, LIVE] = 2
    """The newest."""

    hang_s: Annotated[Positive, LIVE] = 300.0
    """The deadline of every wait for another GMI."""

    cuda_graphs: Annotated[bool, LIVE] = True
    """Replay the kernels of physics, agent and learner as graphs on a GPU; those of Warp on a CPU, too."""

    tf32: Annotated[bool, LIVE] = False
    """Multiply float32 matrices in TF32 on a GPU: faster where networks are large, with 10 bits of the mantissa instead
    of 23. A CPU and a GPU before Ampere ignore it, so that what was trained with it can be played there. What cuDNN
    does (rsl_rl's convolutions and memories) torch leaves in TF32 in any case."""

    physics: Annotated[Physics | None, LIVE] = None
    """MuJoCo on CPU threads (`native`) or MuJoCo Warp on the device (`warp`); None takes Warp on a GPU where it is
    installed, else native."""

    warp: WarpRoom = WarpRoom()
    """Warp's room for contacts, should the measured one be too small."""

    writers: Annotated[tuple[str, ...], AfterValidator(_known_writers), LIVE] = ()
    """What takes the metrics beside `metrics.jsonl`: `tensorboard`, `wandb`, or what packages add (entry points of the
    group `gmi_drl.writers`). One that fails is dropped with a warning."""

    reward_terms: Annotated[bool, LIVE] = False
    """Whether rows tell the mean of each term of the reward (`reward_terms`): for our tasks and `mujoco:*-v5`."""

    learner: AnyLearnerConfig = PPOConfig()
    """What learns, and how."""

    @model_validator(mode="after")
    def _writes_once(self) -> Self:
        if self.writers and (logger := self.learner.own_logger):
            remedy = f"leave one out, e.g. --set {logger}=null"
            raise ValueError(f"writers and {logger} would write the same into the run folder: {remedy}")
        return self


def default_config(task: TaskSpec, kind: str = OUR_PPO.name) -> RunConfig:
    """The configuration of a new run of this task by a kind of learner."""
    return RunConfig(learner=LEARNERS.find(kind).model.for_task(task))


def ppo_of(config: RunConfig) -> PPOConfig:
    """The configuration of our PPO.

    Raises:
        UsageError: if something else learns.
    """
    if not isinstance(config.learner, PPOConfig):
        raise UsageError(f"this is for learner.kind ppo, the run has {config.learner.kind}")
    return config.learner


def a3c_of(config: RunConfig) -> A3CConfig:
    """The configuration of A3C.

    Raises:
        UsageError: if something else learns.
    """
    if not isinstance(config.learner, A3CConfig):
        raise UsageError(f"this is for learner.kind a3c, the run has {config.learner.kind}")
    return config.learner


def acting_of(config: RunConfig) -> OurConfig:
    """The configuration of a learner whose policy an agent of ours acts by.

    Raises:
        UsageError: if something else learns.
    """
    if not isinstance(config.learner, OurConfig):
        raise UsageError(f"this is for policies of ppo and a3c, the run has {config.learner.kind}")
    return config.learner


def apply_settings(
    base: RunConfig, settings: Sequence[str], source: str = "--set", over: Mapping[str, Any] = MappingProxyType({})
) -> RunConfig:
    """A copy of `base` with the values of `over` and then `a.b=value` settings applied; these are read as YAML.

    Raises:
        UsageError: with every mistake in the settings, among which is that one overrides another.
    """
    data, set_before = base.model_dump() | deepcopy(dict(over)), list[str]()
    for key, value in values_of(settings, source).items():
        if overridden := [other for other in set_before if f"{other}.".startswith(f"{key}.")]:
            raise UsageError(f"{source}: {key} overrides {', '.join(overridden)}, which is given before it")
        set_before.append(key)
        _put(data, key.split("."), value, source)
    return parse(RunConfig, data, source)


def values_of(settings: Sequence[str], source: str = "--set") -> dict[str, object]:
    """The values of `a.b=value` settings by their keys, read as YAML.

    Raises:
        UsageError: if one is malformed, or if a key is given twice.
    """
    malformed = [setting for setting in settings if not setting.partition("=")[1] or not setting.partition("=")[0]]
    if malformed:
        raise UsageError(f"{source}: expected KEY=VALUE, e.g. learner.learning_rate=3e-4, got {', '.join(malformed)}")
    values: dict[str, object] = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        if key.strip() in values:
            raise UsageError(f"{source}: {key.strip()} is given twice, as {values[key.strip()]} and as {text}")
        values[key.strip()] = _value(text, setting)
    return values


def load_config(path: Path) -> RunConfig:
    """Read the `config.yaml` of a run.

    Earlier versions left keys of rsl_rl's file in it that are settings of the run and had no effect there: they are
    dropped.
    """
    data = read_mapping(path)
    learner = data.get("learner")
    if isinstance(learner, dict) and isinstance(runner := learner.get("runner"), dict):
        learner["runner"] = {key: value for key, value in runner.items() if key not in RUN_SETTINGS}
    return parse(RunConfig, data, str(path))


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
