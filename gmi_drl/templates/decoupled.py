"""Decoupled, the template of asynchronous training: agents and trainers on GMIs of their own (section 5.1)."""

from collections.abc import Mapping, Sequence
from itertools import chain

from gmi_drl.cut import AnyCut
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware import Node
from gmi_drl.layout import Channels, Device, GmiGroup, Layout, Projection
from gmi_drl.learners import LearnerConfig, LearnerEntry
from gmi_drl.mapping import MappingList
from gmi_drl.reductions import usual_reduction
from gmi_drl.speeds import Speeds
from gmi_drl.templates.cost import Communication
from gmi_drl.templates.even import described, even_devices, shares_cores
from gmi_drl.templates.tcg import SERVING
from gmi_drl.templates.tcg_ex import TRAINERS, all_in_one
from gmi_drl.templates.template import UNMEASURED, Purpose
from gmi_drl.units import counted
from gmi_drl.workload import TaskSpec

AGENT = "gmi_drl.roles.asynchronous.agent:ExperienceAgent"


class Decoupled:
    """See `Template`. The last GMIs train, the others simulate and act.

    Args:
        trainers: How many train, over all devices.
        channels: By which experience gets to them; None for the usual ones.
    """

    name = "decoupled"
    what = "agents send experience to trainers on other GMIs and go on meanwhile (paper sections 4.2 and 5.1)"
    purpose: Purpose = "training"
    usual_learner = "a3c"
    planner: str | None = "gmi_drl.profiler.both_sides:plan_here"

    def __init__(self, trainers: int = 1, channels: Channels | None = None) -> None:
        self.trainers, self.channels = trainers, channels or Channels()

    def lay_out(
        self,
        task: TaskSpec,
        node: Node,
        cut: AnyCut,
        projection: Projection = UNMEASURED,
        why: Sequence[str] = (),
        communication: Communication | None = None,
    ) -> Layout:
        """See `Template`: each device is cut evenly.

        Raises:
            NoFeasiblePlanError: if no GMI would be left to act.
        """
        even = even_devices(node, cut, SERVING)
        count = sum(len(device.gmis) for device in even)
        if count <= self.trainers:
            remedy = "ask for more with --gmis-per-gpu, on one core with --share-cores"
            raise NoFeasiblePlanError(
                f"{self.name} needs {self.trainers + 1} GMIs at least, of which one acts, not {counted(count, 'GMI')}: "
                f"{remedy}"
            )
        devices = tuple(_with_trainers(device, first=count - self.trainers) for device in even)
        mapping = [ids for ids in _trainers_of(devices) if ids]
        if communication and communication.reduces:
            groups = all_in_one(mapping, communication.method(mapping))
        else:
            groups = all_in_one(mapping, usual_reduction(mapping, node.cpu.architecture))
        agents = sum(gmi.num_env > 0 for device in devices for gmi in device.gmis)
        form = f"{counted(agents, 'agent')} and {counted(self.trainers, 'trainer')}"
        reasons = (*why, described(even, cut, node), f"{self.name}: {form}: {self.what}")
        return Layout(
            task=task.name,
            template=self.name,
            backend=cut.backend,
            share_cores=cut.share_cores and shares_cores(devices),
            devices=devices,
            groups=groups,
            channels=self.channels,
            projection=projection,
            reasons=reasons,
        )

    def groups(self, mapping: MappingList, architecture: str) -> dict[str, GmiGroup]:
        """See `Template`."""
        last = set(list(chain.from_iterable(mapping))[-self.trainers :])
        training = [ids for device in mapping if (ids := [gmi for gmi in device if gmi in last])]
        return all_in_one(training, usual_reduction(training, architecture))

    def check(self, layout: Layout) -> list[str]:
        """See `Template`."""
        agents, trainers = layout.with_role("simulator"), layout.with_role("trainer")
        mistakes = []
        if layout.task is None:
            mistakes.append(f"{self.name} needs a task, this layout names none")
        if others := [gmi.id for gmi in layout.gmis if gmi.roles not in (SERVING, ("trainer",))]:
            mistakes.append(
                f"{self.name} needs either {' and '.join(SERVING)} or trainer alone on every GMI: see GMIs {others}"
            )
        if not agents or not trainers:
            mistakes.append(f"{self.name} needs a GMI that acts and one that trains at least")
        if len({gmi.num_env for gmi in agents}) > 1:
            sizes = {gmi.id: gmi.num_env for gmi in agents}
            mistakes.append(f"{self.name} needs as many environments on each GMI that acts, this layout has {sizes}")
        everyone = {TRAINERS: tuple(gmi.id for gmi in trainers)}
        groups = {name: tuple(sorted(group.members)) for name, group in layout.groups.items()}
        if groups != everyone:
            mistakes.append(f"{self.name} needs the one group {everyone}, this layout has {groups}")
        if layout.channels is None:
            mistakes.append(f"{self.name} needs `channels: {{}}`, by which experience gets to the trainers")
        if len(layout.nodes) > 1:
            nodes = ", ".join(str(node) for node in layout.nodes)
            mistakes.append(f"{self.name}: channels join GMIs of one host, this layout is over {nodes}")
        return mistakes

    def communication(
        self, task: TaskSpec, learner: LearnerConfig, node: Node, speeds: Speeds | None = None
    ) -> Communication:
        """See `Template`: the trainers' gradients; experience goes beside what agents do."""
        return Communication(
            reduces=learner.epochs * learner.minibatches if self.trainers > 1 else 0,
            bucket_bytes=learner.bucket_bytes(task),
            architecture=node.cpu.architecture,
            kind="gpu" if node.num_gpus else "cpu",
            speeds=speeds,
        )

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`.

        Raises:
            UsageError: if the learner cannot learn from other GMIs' experience.
        """
        if learner.trainer is None:
            raise UsageError(f"{learner.name} learns where it acts, not by {self.name}: take --algo a3c")
        return {gmi.id: learner.trainer if "trainer" in gmi.roles else AGENT for gmi in layout.gmis}

    def probe(self, learner: LearnerEntry) -> str | None:
        """See `Template`: agents and trainers have one each (`profiler.both_sides`)."""
        return None

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: rank 0 of the trainers."""
        return layout.groups[TRAINERS].members[:1]

    def reporters(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: the trainers, which know of their agents what rollouts tell."""
        return layout.groups[TRAINERS].members


def _with_trainers(device: Device, first: int) -> Device:
    """The GMIs from id `first` on train."""
    update = {"roles": ("trainer",), "num_env": 0}
    gmis = tuple(gmi.model_copy(update=update) if gmi.id >= first else gmi for gmi in device.gmis)
    return device.model_copy(update={"gmis": gmis})


def _trainers_of(devices: Sequence[Device]) -> list[list[int]]:
    return [[gmi.id for gmi in device.gmis if "trainer" in gmi.roles] for device in devices]


DECOUPLED = Decoupled()
