"""The agents of a world as rows: spaces of each, what all have in common, and padding where they differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gmi_drl.config.task_section import TaskSettings
from gmi_drl.errors import UsageError
from gmi_drl.tasks.adapters.spaces import ALONE, MASK, ActionSpace, ObservationSpace
from gmi_drl.workload.observations import pack, parts_of
from gmi_drl.workload.spaces import Action, Observation, Part

AGENT, STATE = "agent", "state"
"""Names of the parts that tell which agent a row is, and the world's state, which the critic alone sees."""


@dataclass(frozen=True)
class AgentSpaces:
    """The spaces of an agent."""

    name: str
    seen: ObservationSpace
    acts: ActionSpace

    def __str__(self) -> str:
        return f"{self.name} sees {self.seen.observation} and does {self.acts.action}"


class AgentRows:
    """How K agents of one world share a policy: their observations and actions in one form.

    Args:
        task: The task's name, for messages.
        agents: The spaces of each, in order.
        settings: `agent_id` and `pad`.
        state: The part of the world's state; None without one.

    Attributes:
        observation: What each row sees.
        acts: The space of actions that all have; of unlike agents the largest one.

    Raises:
        UsageError: There are no agents, or their spaces differ and are not padded, or cannot be.
    """

    def __init__(self, task: str, agents: Sequence[AgentSpaces], settings: TaskSettings, state: Part | None) -> None:
        if not agents:
            raise UsageError(f"{task} has no agents: possible_agents is empty")
        self._agents = agents
        first = agents[0]
        self._is_padded = any(
            (one.seen.observation, one.acts.action) != (first.seen.observation, first.acts.action) for one in agents
        )
        if self._is_padded:
            _require_paddable(task, agents, may_pad=settings.pad is True)
        self.acts = max((one.acts for one in agents), key=lambda acts: acts.action.params)
        parts = [*self._common_parts()]
        parts += [Part(AGENT, (len(agents),))] if settings.agent_id else []
        parts += [replace(state, name=STATE, critic_alone=True)] if state else []
        if len({part.name for part in parts}) < len(parts):
            raise UsageError(f"{task}: its observations have a part named {AGENT} or {STATE} of their own")
        self.observation = Observation(tuple(parts))

    def rows(self, seen: Sequence[Tensor], state: Tensor | None) -> Tensor:
        """The observations of all rows `[E * K, *shape]`, world by world, from those of each agent `[E, ...]`."""
        worlds, count, device = len(seen[0]), len(seen), seen[0].device
        parts: dict[str, Tensor] = {}
        for part in self.observation.parts:
            if part.name == STATE and state is not None:
                of_agents = [state] * count
            elif part.name == AGENT and part.name not in self._names:
                ones = torch.eye(count, device=device)
                of_agents = [one.expand(worlds, count) for one in ones]
            else:
                of_agents = [self._part(part, number, one) for number, one in enumerate(seen)]
            parts[part.name] = torch.stack(of_agents, 1).flatten(0, 1)
        return pack(parts, self.observation)

    def actions(self, rows: Tensor) -> list[Any]:
        """The actions of each agent in all worlds, nested as its space is, from rows `[E * K, A]`."""
        count, actions = len(self._agents), []
        for number, agent in enumerate(self._agents):
            own = rows[number::count]
            if self._is_padded:
                own = _within(own, agent.acts.action)
            actions.append(agent.acts.nested(own))
        return actions

    @property
    def _names(self) -> set[str]:
        return {part.name for part in self._agents[0].seen.observation.parts}

    def _common_parts(self) -> tuple[Part, ...]:
        if not self._is_padded:
            return self._agents[0].seen.observation.parts
        parts = [Part(ALONE, (max(one.seen.observation.size for one in self._agents),))]
        categories = self.acts.action.categories
        return (*parts, Part(MASK, (sum(categories),), "mask")) if categories else (*parts,)

    def _part(self, part: Part, number: int, seen: Tensor) -> Tensor:
        """A part of an agent's observations `[E, ...]`."""
        agent = self._agents[number]
        if not self._is_padded:
            return parts_of(seen, agent.seen.observation)[part.name]
        if part.name == MASK:
            allowed = torch.zeros(part.shape, dtype=torch.uint8, device=seen.device)
            allowed[: sum(agent.acts.action.categories)] = 1
            return allowed.expand(len(seen), -1)
        return torch.nn.functional.pad(seen, (0, part.shape[0] - seen.shape[1]))


def _require_paddable(task: str, agents: Sequence[AgentSpaces], *, may_pad: bool) -> None:
    """Refuse agents that differ, unless they are padded and can be: vectors, and one choice or numbers alone."""
    differ: Mapping[str, AgentSpaces] = {f"{one.seen.observation} {one.acts.action}": one for one in agents}
    words = "; ".join(map(str, differ.values()))
    if not may_pad:
        raise UsageError(
            f"{task}: its agents differ: {words}: --set task.pad=true fills their observations with zeros and masks "
            "actions, also where each has a policy of its own"
        )
    is_plain = all(one.seen.observation.is_vector for one in agents)
    kinds = {(one.acts.action.numbers > 0, len(one.acts.action.categories)) for one in agents}
    if not is_plain or kinds not in ({(False, 1)}, {(True, 0)}):
        raise UsageError(f"{task}: task.pad is for vectors, and one choice or numbers alone, not for: {words}")
    widest = max(agents, key=lambda one: one.acts.action.numbers).acts
    for one in agents:
        size = one.acts.action.numbers
        if not (torch.equal(one.acts.low, widest.low[:size]) and torch.equal(one.acts.high, widest.high[:size])):
            raise UsageError(f"{task}: task.pad needs actions of equal bounds, and those of {one.name} differ")


def _within(rows: Tensor, action: Action) -> Tensor:
    """Rows of padded actions cut to those of an agent."""
    own = rows[:, : action.size]
    return own.clamp(max=action.categories[0] - 1) if action.categories else own
