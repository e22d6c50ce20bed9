"""The configuration of rsl_rl's runner as its users have it on disk: `params/agent.yaml` of Isaac Lab or mjlab."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, ConfigDict, Field

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, parse
from gmi_drl.rsl_rl_policy import with_two_networks
from gmi_drl.yaml_text import EXPONENT

RUN_SETTINGS = {"max_iterations": "iterations", "seed": "seed", "save_interval": "checkpoint_every"}
"""What rsl_rl's users write into the same file, and which setting of a run it is."""

_ABSENT = object()


class _Open(FileModel):
    """Checks what we know of a part; the rest is rsl_rl's to judge."""

    model_config = ConfigDict(extra="allow")


class _Network(_Open):
    class_name: str


class _Algorithm(_Open):
    class_name: str = "PPO"
    num_mini_batches: Annotated[int, Field(ge=1)] = 4
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3


class _Runner(_Open):
    clip_actions: Annotated[float, Field(gt=0)] | None = None
    class_name: Literal["OnPolicyRunner"] = "OnPolicyRunner"
    num_steps_per_env: Annotated[int, Field(ge=1)]
    obs_groups: dict[str, tuple[str, ...]]
    actor: _Network
    critic: _Network
    algorithm: _Algorithm


def _checked(section: dict[str, Any]) -> dict[str, Any]:
    section = {"obs_groups": {}, **with_two_networks(section)}  # empty, rsl_rl chooses: the network's name or `policy`
    parse(_Runner, section, "rsl_rl")
    return section


RslRlSection = Annotated[dict[str, Any], AfterValidator(_checked)]
"""rsl_rl's `train_cfg`, kept as it is: what rsl_rl knows beyond the few values that we check is its own to judge.

What its users' scripts read has no effect: `device`, `resume`, `load_run` and the like; the layout says where a run
trains. Classes that it names are imported, as rsl_rl does.
"""


def require_groups(section: dict[str, Any], known: Collection[str]) -> None:
    """Refuse a configuration whose networks see groups of observations that a task does not have.

    Raises:
        UsageError: with what there is.
    """
    sets = section["obs_groups"]
    if unknown := {group for groups in sets.values() for group in groups} - set(known):
        every = ", ".join(f"{name}: [policy]" for name in sets)
        raise UsageError(
            f"rsl_rl.obs_groups: the task has no group {', '.join(sorted(unknown))}, only {', '.join(sorted(known))}: "
            f"give, for example, --set 'rsl_rl.obs_groups={{{every}}}'"
        )


def minibatches_of(section: dict[str, Any]) -> int:
    """Mini-batches per epoch; rsl_rl's default where it says nothing."""
    return parse(_Runner, section, "rsl_rl").algorithm.num_mini_batches


def learning_rate_of(section: dict[str, Any]) -> float:
    """What the learning rate begins with; rsl_rl's default where it says nothing."""
    return parse(_Runner, section, "rsl_rl").algorithm.learning_rate


def read_rsl_rl_config(path: Path) -> dict[str, Any]:
    """Read rsl_rl's `train_cfg` from YAML: the `rsl_rl` section of a run, and the settings of a run it says.

    Python's tuples, which mjlab dumps, are lists, and dataclass values that are `MISSING`, which Isaac Lab leaves, are
    left out. No code runs.

    Raises:
        UsageError: if it is no such file.
    """
    try:
        section = _without_absent(yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(section, dict):
        raise UsageError(f"{path}: expected `key: value` lines, found {type(section).__name__}")
    settings = {ours: section.pop(theirs) for theirs, ours in RUN_SETTINGS.items() if theirs in section}
    return {"rsl_rl": section, **settings}


def refuse_idle_settings(settings: Sequence[str]) -> None:
    """Refuse `ppo.KEY=VALUE` settings where rsl_rl's own configuration stands in for the `ppo` section.

    Raises:
        UsageError: naming them.
    """
    keys = [setting.partition("=")[0].strip() for setting in settings]
    idle = [key for key in keys if key.split(".")[0] == "ppo" and key != "ppo.reward_scale"]
    if idle:
        raise UsageError(f"{', '.join(idle)}: no effect beside a rsl_rl section, set rsl_rl.algorithm.* or the like")


class _Loader(yaml.SafeLoader):
    """`SafeLoader` and the two kinds of Python objects that such files hold."""


def _without_absent(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_absent(inner) for key, inner in value.items() if inner is not _ABSENT}
    return [_without_absent(inner) for inner in value] if isinstance(value, list) else value


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+.0123456789"))
_Loader.add_constructor("tag:yaml.org,2002:python/tuple", yaml.SafeLoader.construct_yaml_seq)  # type: ignore[type-var]
_Loader.add_constructor("tag:yaml.org,2002:python/object:dataclasses._MISSING_TYPE", lambda loader, node: _ABSENT)
