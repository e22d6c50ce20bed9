"""Reads and checks configuration files of rsl_rl's runner: `params/agent.yaml` of Isaac Lab or mjlab."""

from collections.abc import Collection
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator

from gmi_drl.config.learners.rsl_rl_keys import RUN_SETTINGS
from gmi_drl.config.learners.rsl_rl_parts import Algorithm, Runner
from gmi_drl.config.learners.rsl_rl_policy import of_today, with_two_networks
from gmi_drl.errors import UsageError
from gmi_drl.files import parse
from gmi_drl.yaml_text import EXPONENT

PLACE = "learner.runner"
"""The key of the section in a configuration, for errors."""

_ABSENT = object()

MOST_VALUES = 100_000
"""Most keys and values of a file with its aliases written out; real files have about a hundred."""


def _checked(section: dict[str, Any]) -> dict[str, Any]:
    if moved := [f"{PLACE}.{key} is {RUN_SETTINGS[key]} of the run" for key in section if key in RUN_SETTINGS]:
        raise UsageError(f"{', '.join(moved)}: set that, and leave it out here")
    _require_ppo(section)
    section = {"obs_groups": {}, **with_two_networks(section)}  # empty, rsl_rl chooses: the network's name or `policy`
    section |= {name: of_today(section[name]) for name in ("actor", "critic") if name in section}
    if mistakes := list(parse(Runner, section, PLACE).contradictions()):
        raise UsageError("; ".join(f"{PLACE}.{mistake}" for mistake in mistakes))
    return section


def _require_ppo(section: dict[str, Any]) -> None:
    """Refuse other runners, which need more than environments, e.g. distillation."""
    for key in ("class_name", "runner_class_name"):
        if section.get(key) not in (None, "OnPolicyRunner"):
            raise UsageError(f"{PLACE}.{key}: {section[key]} cannot be run, only PPO by rsl_rl's OnPolicyRunner")


RslRlSection = Annotated[dict[str, Any], AfterValidator(_checked)]
"""rsl_rl's `train_cfg`, with networks in the current form. Only a few values are checked here, the rest by rsl_rl.

A warning says which keys have no effect here, because only scripts of users read them (`rsl_rl_keys.RUNNER`). Classes
that it names are imported, as by rsl_rl, but not from the working directory.
"""


def unknown_groups(section: dict[str, Any], known: Collection[str]) -> list[str]:
    """A sentence with the remedy if networks use groups of observations that are not `known`; else empty."""
    sets = section["obs_groups"]
    unknown = {group for groups in sets.values() for group in groups} - set(known)
    if not unknown:
        return []
    there = ", ".join(sorted(known))
    every = ", ".join(f"{name}: [{there}]" for name in sets)
    return [
        f"{PLACE}.obs_groups: the task has no group {', '.join(sorted(unknown))}, only {there}: "
        f"give, for example, --set '{PLACE}.obs_groups={{{every}}}'"
    ]


def algorithm_of(section: dict[str, Any]) -> Algorithm:
    """The algorithm of a checked section."""
    return parse(Runner, section, PLACE).algorithm


def read_rsl_rl_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read rsl_rl's `train_cfg` from YAML. Returns the value of `learner.runner`, and settings of the run.

    Python tuples, which mjlab dumps, become lists, and functions their names. Dataclass values that are `MISSING`,
    which Isaac Lab dumps as such or as `{}`, are left out. The keys of a section `runner`, as in rsl_rl's example, are
    moved up. Reading cannot run code.

    Raises:
        UsageError: if it is not such a file.
    """
    try:
        section = _without_absent(yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(section, dict):
        raise UsageError(f"{path}: expected `key: value` lines, found {type(section).__name__}")
    if isinstance(runner := section.get("runner"), dict):
        section = {name: value for name, value in section.items() if name != "runner"} | runner
    _require_rsl_rl(section, path)
    settings = {ours: section.pop(theirs, None) for theirs, ours in RUN_SETTINGS.items()}
    return section, {name: value for name, value in settings.items() if value is not None}


def _require_rsl_rl(section: dict[str, Any], path: Path) -> None:
    """Raise UsageError for a file of another library: Isaac Lab calls all of them agent.yaml."""
    signs = {
        "skrl": section.keys() >= {"agent", "trainer"},
        "rl_games": isinstance(section.get("params"), dict),
        "Stable-Baselines3": isinstance(section.get("policy"), str),
    }
    for library in (library for library, is_theirs in signs.items() if is_theirs):
        raise UsageError(
            f"{path} is a configuration of {library}, not of rsl_rl: Isaac Lab writes rsl_rl's as params/agent.yaml "
            "into the logs of its rsl_rl/train.py; without --rsl-rl-config our settings are taken"
        )


class _Loader(yaml.SafeLoader):
    """`SafeLoader` with the three kinds of Python objects in such files.

    Aliases are allowed, since PyYAML writes them for values that are used twice, but `MOST_VALUES` limits their size.
    """

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()  # here an alias is still its anchor's node
        if node is not None:
            _count(node, {})
        return node


def _count(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """The number of keys and values of a node with all aliases written out. Each node is visited once.

    Raises:
        yaml.YAMLError: if there are too many, or if the node contains itself.
    """
    if node not in known:
        known[node] = MOST_VALUES  # until all that it holds is counted
        inner = [] if isinstance(node, yaml.ScalarNode) else node.value
        pairs = chain.from_iterable(inner) if isinstance(node, yaml.MappingNode) else inner
        known[node] = 1 + sum(_count(one, known) for one in pairs)
    if known[node] > MOST_VALUES:
        line = node.start_mark.line + 1
        raise yaml.YAMLError(f"line {line}: more than {MOST_VALUES} values when its aliases are written out")
    return known[node]


def _without_absent(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_absent(inner) for key, inner in value.items() if inner is not _ABSENT and inner != {}}
    return [_without_absent(inner) for inner in value] if isinstance(value, list) else value


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+.0123456789"))
_Loader.add_constructor("tag:yaml.org,2002:python/tuple", yaml.SafeLoader.construct_yaml_seq)  # type: ignore[type-var]
_Loader.add_constructor("tag:yaml.org,2002:python/object:dataclasses._MISSING_TYPE", lambda loader, node: _ABSENT)
_Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda loader, name, node: name)
