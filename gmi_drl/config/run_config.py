"""The configuration of a run (`config.yaml`): hyper-parameters, checkpoints, deadlines, writers."""

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import AfterValidator, Field, model_validator

from gmi_drl.config.learners import LEARNERS, OUR_PPO, A3CConfig, AnyLearnerConfig, OurConfig, PPOConfig
from gmi_drl.config.learners.base import Count, Positive
from gmi_drl.config.learners.rsl_rl_keys import RUN_SETTINGS
from gmi_drl.config.physics import Physics
from gmi_drl.config.policies import PolicySection, named
from gmi_drl.config.settings import LIVE, RUN, Setting
from gmi_drl.config.task_section import TaskSettings
from gmi_drl.config.writers import TENSORBOARD, WRITERS
from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, parse, read_mapping
from gmi_drl.workload import TaskSpec
from gmi_drl.yaml_text import read_yaml

DROPPED: Mapping[str, Collection[str]] = {"runner": RUN_SETTINGS, "replay": ("update_size",)}
"""Keys of earlier versions that had no effect, by their section of the learner."""


def _known_writers(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(set(names)) < len(names):
        raise ValueError("a writer is given twice")
    try:
        return tuple(WRITERS.find(name).name for name in names)
    except UsageError as error:  # pydantic reports a ValueError with its place in the file
        raise ValueError(str(error)) from None


class WarpRoom(FileModel):
    """MuJoCo Warp's room in each environment.

    None takes the measured room: more than twice the most that random controls needed.
    """

    nconmax: Annotated[Count | None, LIVE] = None
    """Contacts, and nearby geoms."""

    njmax: Annotated[Count | None, LIVE] = None
    """Constraint rows."""


class RunConfig(FileModel):
    """A run (`config.yaml`, `version: 2`)."""

    former: ClassVar[Mapping[str, str]] = {
        "ppo": "`learner: {kind: ppo, ...}`, e.g. --set learner.gamma=0.98",
        "rsl_rl": "`learner: {kind: rsl_rl, runner: ...}`, e.g. --set learner.runner.algorithm.gamma=0.98",
    }
    elsewhere: ClassVar[Mapping[str, str]] = {
        "channels": "not of the configuration, which --set sets, but of the layout file, as `channels: {max_lag: 2}`: "
        "have one written by `gmi-drl plan --template decoupled`, edit and train it",
        "devices": "of a layout file: give that in place of the task, as in `gmi-drl train layout.yaml`",
    }
    version: Annotated[Literal[2], Setting(fixed="it is that of the file")] = 2
    """Of the format."""

    seed: Annotated[int, Field(ge=0, lt=2**32), RUN] = 0
    """Seed of all random numbers."""

    iterations: Annotated[Count, LIVE] = 500
    """Iterations of the run in all."""

    time_limit_s: Annotated[Positive | None, LIVE] = None
    """Seconds from start or resumption after which the run ends, also before `iterations`. Restarts do not reset it."""

    checkpoint_every: Annotated[Count, LIVE] = 100
    """Iterations between checkpoints; one is also written at the end."""

    checkpoint_every_s: Annotated[Positive | None, LIVE] = 60.0
    """Seconds after which a checkpoint is written, too; more where writing one takes long, which then is 1 % of the
    time. None: only every `checkpoint_every` iterations. Several policies save together, however long it takes."""

    checkpoints_kept: Annotated[Count, LIVE] = 2
    """Number of newest checkpoints to keep; the one with the best evaluation is kept, too. With several policies two
    are kept at least."""

    eval_every: Annotated[Count | None, LIVE] = None
    """Iterations between evaluations: episodes without noise in environments of their own. None: no evaluations."""

    eval_num_env: Annotated[Count, LIVE] = 16
    """Environments of an evaluation, divided among the GMIs that train; each plays one episode."""

    hang_s: Annotated[Positive, LIVE] = 300.0
    """Seconds of silence after which a GMI counts as hung, for every wait for another GMI."""

    cuda_graphs: Annotated[bool, LIVE] = True
    """Replay the kernels of physics, agent and learner as CUDA graphs on a GPU; Warp's also on a CPU."""

    tf32: Annotated[bool, LIVE] = False
    """Multiply float32 matrices in TF32 on a GPU: faster for large networks, with 10 bits of mantissa instead of 23.
    CPUs and GPUs before Ampere ignore it, so policies trained with it can be played there. cuDNN (rsl_rl's convolutions
    and recurrent networks) uses TF32 in any case."""

    physics: Annotated[Physics | None, LIVE] = None
    """MuJoCo on CPU threads (`native`) or MuJoCo Warp on the device (`warp`); None takes Warp on a GPU if it is
    installed, else native."""

    warp: WarpRoom = WarpRoom()
    """Warp's room for contacts, if the measured one is too small."""

    writers: Annotated[tuple[str, ...] | None, AfterValidator(_known_writers), LIVE] = None
    """Writers of metrics besides `metrics.jsonl`: `tensorboard`, `wandb`, `trackio`, `csv`, or those of other packages
    (entry points of the group `gmi_drl.writers`). None takes `tensorboard` if it is installed and the learner has no
    logger of its own. A writer that fails is dropped with a warning."""

    reward_terms: Annotated[bool, LIVE] = False
    """Whether metrics include the mean of each term of the reward (`reward_terms`), for our tasks and `mujoco:*-v5`."""

    policies: Annotated[dict[str, PolicySection], AfterValidator(named), Setting(fixed="a run keeps its policies")] = (
        Field(default_factory=dict)
    )
    """Several policies by name, each with its agents (template `workers`); empty: one policy of all agents."""

    task: TaskSettings = TaskSettings()
    """How a game or a world of another library is played."""

    learner: AnyLearnerConfig = PPOConfig()
    """The learner and its hyper-parameters."""

    @model_validator(mode="after")
    def _writes_once(self) -> Self:
        if self.writers and (logger := self.learner.own_logger):
            remedy = f"leave one out, e.g. --set {logger}=null"
            raise ValueError(f"writers and {logger} would write the same into the run folder: {remedy}")
        return self

    @property
    def used_writers(self) -> tuple[str, ...]:
        """The names of the writers: those of `writers`, or the usual ones where it is None."""
        if self.writers is not None:
            return self.writers
        return (TENSORBOARD.name,) if self.learner.own_logger is None and find_spec("tensorboard") else ()


def default_config(task: TaskSpec, kind: str = OUR_PPO.name) -> RunConfig:
    """The configuration of a new run of this task by a kind of learner."""
    return RunConfig(learner=LEARNERS.find(kind).model.for_task(task))


def ppo_of(config: RunConfig) -> PPOConfig:
    """The settings of our PPO.

    Raises:
        UsageError: if the run has another learner.
    """
    if not isinstance(config.learner, PPOConfig):
        raise UsageError(f"this is for learner.kind ppo, the run has {config.learner.kind}")
    return config.learner


def a3c_of(config: RunConfig) -> A3CConfig:
    """The settings of A3C.

    Raises:
        UsageError: if the run has another learner.
    """
    if not isinstance(config.learner, A3CConfig):
        raise UsageError(f"this is for learner.kind a3c, the run has {config.learner.kind}")
    return config.learner


def acting_of(config: RunConfig) -> OurConfig:
    """The settings of a learner whose policies our agents can run: PPO or A3C.

    Raises:
        UsageError: if the run has another learner.
    """
    if not isinstance(config.learner, OurConfig):
        raise UsageError(f"this is for policies of ppo and a3c, the run has {config.learner.kind}")
    return config.learner


def policy_config(config: RunConfig, name: str) -> RunConfig:
    """The configuration of a run with one of several policies alone.

    Policies save in the same iterations (`launch.leaders`), but not at the same moment: so two checkpoints are kept at
    least, of which all policies have one.

    Raises:
        UsageError: with every mistake in its section `learner`.
    """
    data = config.model_dump()
    learner = _merged(data["learner"], config.policies[name].learner)
    saving = {"checkpoint_every_s": None, "checkpoints_kept": max(2, config.checkpoints_kept)}
    return parse(RunConfig, {**data, **saving, "policies": {}, "learner": learner}, f"policies.{name}")


def apply_settings(
    base: RunConfig, settings: Sequence[str], source: str = "--set", over: Mapping[str, Any] = MappingProxyType({})
) -> RunConfig:
    """A copy of `base` with the values of `over`, then with `a.b=value` settings, whose values are YAML.

    Raises:
        UsageError: with every mistake in the settings. It is a mistake that one overrides another.
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

    Keys that earlier versions wrote into sections of the learner, without effect, are dropped.
    """
    data = read_mapping(path)
    learner = data.get("learner")
    if isinstance(learner, dict):
        for name, keys in DROPPED.items():
            if isinstance(section := learner.get(name), dict):
                learner[name] = {key: value for key, value in section.items() if key not in keys}
    return parse(RunConfig, data, str(path))


def over_file(base: RunConfig, path: Path, without: Collection[str] = ()) -> RunConfig:
    """A copy of `base` with the values of a `config.yaml`, which need not have all.

    Args:
        base: Its learner must be of the kind that the file names, if it names one.
        path: The file.
        without: Keys of the file to leave out.

    Raises:
        UsageError: with every mistake in the file.
    """
    given = {key: value for key, value in read_mapping(path).items() if key not in without}
    section = given.get("learner")
    kind = section.get("kind", base.learner.kind) if isinstance(section, dict) else base.learner.kind
    if kind != base.learner.kind:
        raise UsageError(f"{path} is for --algo {kind}, the run has {base.learner.kind}: give --algo {kind}")
    return parse(RunConfig, _merged(base.model_dump(), given), str(path))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`below` with the values of `above`, also within mappings that both have."""
    both = {key for key in below.keys() & above.keys() if isinstance(below[key], dict) and isinstance(above[key], dict)}
    return {**below, **above, **{key: _merged(below[key], above[key]) for key in both}}


def _value(text: str, setting: str) -> object:
    try:
        return read_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        raise UsageError(f"--set {setting}: the value is not valid YAML") from None


def _put(data: dict[str, Any], path: list[str], value: object, source: str) -> None:
    """Set `data[a][b] = value`. UsageError if `data[a]` is a plain value."""
    *parents, last = path
    for depth, part in enumerate(parents, 1):
        child = data.setdefault(part, {})
        if not isinstance(child, dict):
            raise UsageError(f"{source}: {'.'.join(path[:depth])} is a single value, it has no key {path[depth]!r}")
        data = child
    data[last] = value
