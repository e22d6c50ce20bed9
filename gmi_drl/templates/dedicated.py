"""Templates whose GMIs have one role each: the common part of TDG and TDG_EX (paper section 5.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from gmi_drl.config.learners.base import FLOAT_BYTES
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import AnyCut
from gmi_drl.layout.layout import GMI, Device, Layout, Role
from gmi_drl.templates.even import described, even_devices, more_gmis
from gmi_drl.templates.template import Template
from gmi_drl.units import counted
from gmi_drl.workload import TaskSpec

SIMULATOR: tuple[Role, ...] = ("simulator",)

FLAGS = 4
"""Bytes of flags for every environment and step: terminated, truncated, bad, valid."""


@dataclass(frozen=True)
class Chain:
    """The GMIs of one device, which exchange messages: its simulators, their agent, and its trainer.

    Args:
        number: The index of the chain. In a training it is the rank of the trainer.
        first: The number of simulators in the chains before.
        simulators: Ids of the simulators, in order.
        others: Id of the agent, then of the trainer if there is one.
    """

    number: int
    first: int
    simulators: tuple[int, ...]
    others: tuple[int, ...]

    @property
    def agent(self) -> int:
        """The id of the agent."""
        return self.others[0]

    @property
    def trainer(self) -> int:
        """The id of the trainer. IndexError in serving."""
        return self.others[1]

    def place_of(self, simulator: int) -> int:
        """The index of one of its simulators among those of all chains."""
        return self.first + self.simulators.index(simulator)


def chains(layout: Layout) -> tuple[Chain, ...]:
    """The chains of a valid layout, one for each device."""
    made: list[Chain] = []
    first = 0
    for device in layout.devices:
        simulators = tuple(gmi.id for gmi in device.gmis if gmi.roles == SIMULATOR)
        others = sorted((gmi for gmi in device.gmis if gmi.roles != SIMULATOR), key=lambda gmi: gmi.roles)
        made.append(Chain(len(made), first, simulators, tuple(gmi.id for gmi in others)))
        first += len(simulators)
    return tuple(made)


def chain_of(layout: Layout, gmi_id: int) -> Chain:
    """The chain of a GMI."""
    return next(chain for chain in chains(layout) if gmi_id in (*chain.simulators, *chain.others))


class Dedicated(Template):
    """A template in which the last GMIs of each device have one of the roles `others` each; the rest simulate.

    Its GMIs differ, so none is measured by itself.
    """

    others: tuple[Role, ...]

    def devices(self, node: Node, cut: AnyCut) -> tuple[Device, ...]:
        """See `Template`: a device needs at least as many GMIs as roles."""
        devices = even_devices(node, cut, SIMULATOR)
        fewest, wanted = min(len(device.gmis) for device in devices), self._fewest_on_each
        if fewest < wanted:
            roles = ", ".join((*SIMULATOR, *self.others))
            needs = f"{self.name} needs {wanted} GMIs on each device ({roles}), not {counted(fewest, 'GMI')}"
            raise NoFeasiblePlanError(f"{needs}: {more_gmis(self.name, wanted)}")
        return tuple(device.model_copy(update={"gmis": _with_roles(device.gmis, self.others)}) for device in devices)

    def usual_gmis_per_gpu(self, node: Node) -> int:
        """See `Template`: on GPUs as many as it needs."""
        return self._fewest_on_each if node.num_gpus else super().usual_gmis_per_gpu(node)

    def form(self, devices: Sequence[Device], cut: AnyCut, node: Node) -> list[str]:
        """See `Template`, with the number of simulators for each agent."""
        sizes = sorted({len(device.gmis) - len(self.others) for device in devices})
        shared = " or ".join(counted(size, "simulator") for size in sizes)
        return [
            described(devices, cut, node, each=" for each simulator"),
            f"each device has {shared} for one {' and one '.join(self.others)}",
            f"{self.name}: {self.what}",
        ]

    def role_mistakes(self, layout: Layout) -> list[str]:
        """See `Template`."""
        wanted = sorted((role,) for role in self.others)
        for device in layout.devices:
            has = [gmi.roles for gmi in device.gmis]
            if sorted(roles for roles in has if roles != SIMULATOR) != wanted or SIMULATOR not in has:
                found = ", ".join("+".join(roles) for roles in has)
                parts = " and ".join(f"one {role}" for role in self.others)
                text = f"{self.name} needs on each device {parts} beside its simulators, each on a GMI of its own"
                return [f"{text}: {device.kind} {device.index} has {found}"]
        if idle := [gmi.id for gmi in layout.gmis if gmi.roles != SIMULATOR and gmi.num_env]:
            return [f"{self.name} has environments on simulators alone: leave num_env of GMIs {idle} out"]
        return []

    @property
    def _fewest_on_each(self) -> int:
        """GMIs of each device: one for each role."""
        return len(SIMULATOR) + len(self.others)


def _with_roles(gmis: tuple[GMI, ...], others: tuple[Role, ...]) -> tuple[GMI, ...]:
    rest = gmis[-len(others) :]
    given = (gmi.model_copy(update={"roles": (role,), "num_env": 0}) for gmi, role in zip(rest, others, strict=True))
    return (*gmis[: -len(others)], *given)


def step_bytes(task: TaskSpec) -> int:
    """Bytes that cross borders for one environment and control step: state, reward and flags one way, the action back.

    Tables 4 and 5 have S + A + W, and in serving another S. Here the last state of an episode is sent only at its end.
    """
    return task.observation.nbytes + task.action.nbytes + FLOAT_BYTES + FLAGS


LEARNT_NUMBERS = 5
"""Numbers of a transition besides observation, action and params: density, value, return, advantage, valid."""


def experience_bytes(task: TaskSpec) -> int:
    """Bytes that an agent sends a trainer for one environment and control step, with advantages."""
    return task.observation.nbytes + task.action.nbytes + FLOAT_BYTES * (task.action.params + LEARNT_NUMBERS)
