"""The section `policies` of a configuration: which agents of a world have which policy."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Self

from pydantic import Field, model_validator

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel
from gmi_drl.layout.layout import NAME
from gmi_drl.units import counted


class PolicySection(FileModel):
    """One of several policies. It learns, unless it has a `checkpoint`."""

    agents: tuple[str, ...]
    """Names of its agents, or patterns such as `adversary_*`; one at least."""

    learner: dict[str, Any] = Field(default_factory=dict)
    """What differs from the settings of `learner`."""

    checkpoint: str | None = None
    """The folder of a run whose newest policy acts here, and learns nothing; None: the policy learns. A relative path
    begins where the command runs."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.checkpoint is not None and self.learner:
            raise ValueError("a policy with a checkpoint learns nothing: leave its learner out")
        return self


def named(policies: dict[str, PolicySection]) -> dict[str, PolicySection]:
    """The section, if its policies can have folders of their names; ValueError if not."""
    if wrong := [name for name in policies if not re.fullmatch(NAME, name)]:
        which = ", ".join(map(repr, wrong))
        raise ValueError(f"names of policies must be letters, digits, _ and -, not {which}: folders have them")
    return policies


def agents_of(policies: Mapping[str, PolicySection], names: Sequence[str], task: str) -> dict[str, tuple[int, ...]]:
    """The agents of each policy, as indices of their names.

    Args:
        policies: The section.
        names: Of the agents of a world of the task, in order.
        task: The task's name, for messages.

    Raises:
        UsageError: with all mistakes: policies without agents, patterns that match nothing, agents of two policies or
            of none.
    """
    if not names:
        raise UsageError(f"policies: {task} does not name its agents, so they have one policy: leave policies out")
    mistakes, owners = [], dict[str, list[str]]()
    for policy, section in policies.items():
        if not section.agents:
            remedy = f"name some of {', '.join(names)}, or leave {policy} out"
            mistakes.append(f"policies.{policy}.agents is empty: {remedy}")
        for pattern in section.agents:
            matched = [name for name in names if fnmatchcase(name, pattern)]
            if not matched:
                mistakes.append(f"policies.{policy}.agents: {pattern!r} matches none of {', '.join(names)}")
            for name in matched:
                owners.setdefault(name, []).append(policy)
    for name, several in owners.items():
        if len(set(several)) > 1:
            mistakes.append(f"{name} is an agent of {' and '.join(dict.fromkeys(several))}: give it one policy")
    if missing := [name for name in names if name not in owners]:
        which = f"{counted(len(missing), 'agent')} of {task} {'has' if len(missing) == 1 else 'have'} no policy"
        mistakes.append(f"{which}: {', '.join(missing)}")
    if mistakes:
        raise UsageError("; ".join(mistakes))
    return {policy: tuple(number for number, name in enumerate(names) if policy in owners[name]) for policy in policies}
