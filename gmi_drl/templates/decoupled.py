"""Decoupled, the template of asynchronous training: agents and trainers on separate GMIs (section 5.1)."""

from collections.abc import Mapping, Sequence
from itertools import chain
from math import ceil

from gmi_drl.config.learners import LearnerEntry
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware.node import Node
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.cut import AnyCut
from gmi_drl.layout.layout import Device, Layout
from gmi_drl.layout.mapping import MappingList
from gmi_drl.layout.pools import pools_of
from gmi_drl.templates.even import described, even_devices, more_gmis
from gmi_drl.templates.tcg import SERVING
from gmi_drl.templates.template import Purpose, Template
from gmi_drl.units import counted

AGENT = "gmi_drl.roles.decoupled.agent:ExperienceAgent"


class Decoupled(Template):
    """See `Template`. The last GMIs train, the others simulate and act.

    Args:
        trainers: GMIs that train, over all devices of a node.
        channels: The channels for experience; None for the usual ones.
    """

    name = "decoupled"
    what = "agents send experience to trainers on other GMIs and go on meanwhile (paper sections 4.2 and 5.1)"
    purpose: Purpose = "training"
    usual_learner = "a3c"
    planner = "gmi_drl.profiler.decoupled_plan:plan_here"

    def __init__(self, trainers: int = 1, channels: Channels | None = None) -> None:
        self.trainers, self.channels = trainers, channels or Channels()

    def devices(self, node: Node, cut: AnyCut) -> tuple[Device, ...]:
        """See `Template`: at least one GMI must act."""
        even = even_devices(node, cut, SERVING)
        count = sum(len(device.gmis) for device in even)
        if count <= self.trainers:
            needs = f"{self.name} needs {self.trainers + 1} GMIs at least, of which one acts"
            remedy = more_gmis(self.name, self._fewest_on_each(len(even)))
            raise NoFeasiblePlanError(f"{needs}, not {counted(count, 'GMI')}: {remedy}")
        return tuple(_with_trainers(device, first=count - self.trainers) for device in even)

    def usual_gmis_per_gpu(self, node: Node) -> int:
        """See `Template`: on GPUs as many as it needs."""
        return self._fewest_on_each(node.num_gpus) if node.num_gpus else super().usual_gmis_per_gpu(node)

    def trainers_of(self, mapping: MappingList) -> MappingList:
        """See `Template`: the last GMIs."""
        last = set(list(chain.from_iterable(mapping))[-self.trainers :])
        return [[gmi for gmi in device if gmi in last] for device in mapping]

    def form(self, devices: Sequence[Device], cut: AnyCut, node: Node) -> list[str]:
        """See `Template`, with the numbers of agents and trainers."""
        agents = sum(len(device.gmis) for device in devices) - self.trainers
        sides = f"{counted(agents, 'agent')} and {counted(self.trainers, 'trainer')}"
        return [f"{described(devices, cut, node)}: {sides}", f"{self.name}: {self.what}"]

    def role_mistakes(self, layout: Layout) -> list[str]:
        """See `Template`."""
        agents, trainers = layout.with_role("simulator"), layout.with_role("trainer")
        mistakes = []
        if others := [gmi.id for gmi in layout.gmis if gmi.roles not in (SERVING, ("trainer",))]:
            mistakes.append(
                f"{self.name} needs either {' and '.join(SERVING)} or trainer alone on every GMI: see GMIs {others}"
            )
        if not agents or not trainers:
            mistakes.append(f"{self.name} needs a GMI that acts and one that trains at least")
        if len({gmi.num_env for gmi in agents}) > 1:
            sizes = {gmi.id: gmi.num_env for gmi in agents}
            mistakes.append(f"{self.name} needs as many environments on each GMI that acts, this layout has {sizes}")
        return mistakes

    def check(self, layout: Layout) -> list[str]:
        """See `Template`: there must also be channels, and an agent for each node with trainers."""
        mistakes = super().check(layout)
        if layout.channels is None:
            mistakes.append(f"{self.name} needs `channels: {{}}`, which carry experience to the trainers")
        idle = [str(pool.node) for pool in pools_of(layout) if not pool.agents] if layout.with_role("agent") else []
        if idle:
            remedy = "put agents there, or more on nodes without trainers, or let fewer nodes train"
            mistakes.append(f"{self.name} needs an agent for the trainers of each node, {', '.join(idle)}: {remedy}")
        return mistakes

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`. UsageError for learners that cannot learn from experience of other GMIs."""
        if learner.trainer is None:
            remedy = "take --algo a3c, ppo, dqn or sac"
            raise UsageError(f"{learner.name} learns where it acts, not by {self.name}: {remedy}")
        acts = learner.actor or AGENT
        return {gmi.id: learner.trainer if "trainer" in gmi.roles else acts for gmi in layout.gmis}

    def restartable(self, layout: Layout) -> frozenset[int]:
        """See `Template`: agents on cores, on any machine. On a GPU a killed process may harm those that share it."""
        return frozenset(gmi.id for gmi in layout.with_role("agent") if layout.device_of(gmi.id).kind == "cpu")

    def _fewest_on_each(self, devices: int) -> int:
        return ceil((self.trainers + 1) / devices)


def _with_trainers(device: Device, first: int) -> Device:
    """The device, whose GMIs from id `first` on train."""
    update = {"roles": ("trainer",), "num_env": 0}
    gmis = tuple(gmi.model_copy(update=update) if gmi.id >= first else gmi for gmi in device.gmis)
    return device.model_copy(update={"gmis": gmis})


DECOUPLED = Decoupled()
