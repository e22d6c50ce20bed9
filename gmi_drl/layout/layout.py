"""The layout file: the GMIs of a run, with their devices and roles. `plan` writes it, `train` reads it."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property, lru_cache
from itertools import chain
from operator import attrgetter
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from gmi_drl.files import FileModel, known
from gmi_drl.hardware.signature import NODE_NAME, MachineSignature
from gmi_drl.layout.backends import BACKENDS, PROCESS, Limit
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.mapping import by_device
from gmi_drl.layout.reductions import NONE, REDUCTIONS, refusal
from gmi_drl.workload import MOST_ENVIRONMENTS

Role = Literal["simulator", "agent", "trainer"]
HOLISTIC: tuple[Role, ...] = ("simulator", "agent", "trainer")
"""The roles of a holistic training GMI (paper section 5.1, TCG_EX)."""

NAME = "[A-Za-z0-9_-]+"
"""The pattern of the names of groups and policies, which files and folders have."""

ITS_OWN_REDUCTION = "each group has its own reduction: `groups: {trainers: {members: [0, 1], reduction: MPR-shm}}`"
"""The message for files of version 1, whose groups were lists of members with one reduction for all."""


@lru_cache
def _in_order(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    """The roles in the usual order, since they are a set. Cached, since most GMIs have the same roles."""
    if twice := {role for role in roles if roles.count(role) > 1}:
        raise ValueError(f"given twice: {', '.join(sorted(twice))}")
    return tuple(role for role in HOLISTIC if role in roles)


class GMI(FileModel):
    """One GPU multiplexing instance: a share of a device, run by one process."""

    id: Annotated[int, Field(ge=0)]
    """Its number in the layout, from 0 on."""

    roles: Annotated[tuple[Role, ...], AfterValidator(_in_order)] = HOLISTIC
    """What it does: a set of `simulator`, `agent` and `trainer`."""

    num_env: Annotated[int, Field(ge=0, le=MOST_ENVIRONMENTS)] = 0
    """Environments of this GMI."""

    ring: Annotated[int, Field(ge=1, exclude_if=lambda ring: ring == 1)] = 1
    """Parts of these environments that step in turn: one waits for its actions while another steps (`workers`)."""

    policy: Annotated[str | None, Field(pattern=f"^{NAME}$", exclude_if=lambda policy: policy is None)] = None
    """Of a trainer or a policy worker in a layout with several policies: the name of its own (`workers`)."""

    cores: tuple[Annotated[int, Field(ge=0)], ...]
    """Indices within the cores that the launching process may use. The physics uses all of them."""

    threads: Annotated[int, Field(ge=1)] | None = None
    """Threads of torch; None: one per core."""

    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """A part of the device that backends such as MPS enforce, in (0, 1]; None: no limit."""

    memory_limit_bytes: Annotated[int, Field(ge=1)] | None = None
    """Most of the device's memory, for backends that enforce it; None: no limit."""

    mig_profile: str | None = None
    """The MIG profile of its instance (`1g.10gb`), for MIG backends; None: no wish."""

    @property
    def torch_threads(self) -> int:
        """The number of torch's threads."""
        return self.threads or len(self.cores)


class Device(FileModel):
    """A GPU or a set of cores, with the GMIs that it is cut into."""

    node: str | None = None
    """The machine of the device, in a layout over several; None: the machine where the layout is opened."""

    kind: Literal["cpu", "gpu"]
    """`gpu`, or `cpu` for a set of cores."""

    index: Annotated[int, Field(ge=0)] = 0
    """Of a GPU: its index within CUDA_VISIBLE_DEVICES. Counts within a machine."""

    gmis: Annotated[tuple[GMI, ...], Field(min_length=1)]
    """The GMIs on it."""


class GmiGroup(FileModel):
    """GMIs that sum their gradients."""

    members: Annotated[tuple[int, ...], Field(min_length=1)]
    """Ids of its GMIs. The index of a member is its rank."""

    reduction: Annotated[str, known(REDUCTIONS)] = NONE.name
    """How they sum: the name of a reduction."""


class Projection(FileModel):
    """The predicted or measured speed and memory of a layout."""

    measured: bool
    """Whether something was run for it."""

    steps_per_second: float | None = None
    """Of all GMIs; None: not known."""

    memory_bytes: int | None = None
    """Of a GMI; None: not known."""


class Layout(FileModel):
    """A layout file (`version: 2`). The learner and its settings are in `config.yaml`.

    In Python it takes tuples where the file has lists.
    """

    former: ClassVar[Mapping[str, str]] = {
        "reduction": ITS_OWN_REDUCTION,
        "groups": ITS_OWN_REDUCTION,
        "algo": "the configuration says what learns: `--algo`",
    }
    version: Literal[2] = 2
    """Of the format."""

    task: str | None = None
    """The task; None for roles that train nothing."""

    template: str | None = None
    """The name of the template, looked up only when needed."""

    backend: Annotated[str, known(BACKENDS)] = PROCESS.name
    """What cuts the devices."""

    share_cores: bool = False
    """Whether GMIs may have the same cores: slow, but it allows more GMIs than cores."""

    devices: Annotated[tuple[Device, ...], Field(min_length=1)]
    """The devices. If they are on several machines, each names its `node`."""

    groups: dict[str, GmiGroup] = Field(default_factory=dict)
    """Groups of GMIs that sum, by name (letters, digits, `_` and `-`)."""

    channels: Channels | None = None
    """They connect agents with trainers on other GMIs; None: there are none."""

    streams: Streams | None = None
    """They carry observations to agents on other GMIs, and actions back; None: there are none."""

    made_for: MachineSignature | None = None
    """The machine that it was planned for, to compare with the one that runs it."""

    projection: Projection | None = None
    """What the plan promises."""

    reasons: tuple[str, ...] = ()
    """Why the plan is as it is, in sentences."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        # Checked here for all GMIs at once, which is faster: a layout may have 80,000.
        parts = (
            self._id_mistakes,
            self._part_mistakes,
            self._core_mistakes,
            self._limit_mistakes,
            self._group_mistakes,
        )
        mistakes = [mistake for part in parts for mistake in part()]
        if mistakes:
            raise ValueError("; ".join(mistakes))
        return self

    def _id_mistakes(self) -> list[str]:
        ids = [gmi.id for gmi in self.gmis]
        mistakes = [] if ids == list(range(len(ids))) else [f"GMI ids must be 0..{len(ids) - 1}, each once, got {ids}"]
        devices = Counter((device.node, device.kind, device.index) for device in self.devices)
        twice = [
            f"device {kind} {index}{_on(node)} is listed {n} times"
            for (node, kind, index), n in devices.items()
            if n > 1
        ]
        return mistakes + twice + self._node_mistakes()

    def _node_mistakes(self) -> list[str]:
        if self.nodes == (None,):
            return []
        wrong = [node for node in self.nodes if node is None or not re.fullmatch(NODE_NAME, node)]
        return [f"every device names its node, by letters, digits, _, . and -, not {node!r}" for node in wrong]

    def _part_mistakes(self) -> list[str]:
        idle = [gmi.id for gmi in self.gmis if not gmi.cores]
        empty = [gmi.id for gmi in self.gmis if gmi.num_env == 0 and "simulator" in gmi.roles]
        return [f"GMI {gmi} has no cores: even a GMI on a GPU needs one to drive it" for gmi in idle] + [
            f"GMI {gmi} has the simulator's role, so num_env must be at least 1" for gmi in empty
        ]

    def _core_mistakes(self) -> list[str]:
        if self.share_cores:
            return []
        return list(chain.from_iterable(self._cores_given_twice(node) for node in self.nodes))

    def _cores_given_twice(self, node: str | None) -> list[str]:
        gmis = [gmi for device in self.devices_on(node) for gmi in device.gmis]
        given = list(chain.from_iterable(gmi.cores for gmi in gmis))
        if len(set(given)) == len(given):
            return []
        owners: dict[int, list[int]] = {}
        for gmi in gmis:
            for core in gmi.cores:
                owners.setdefault(core, []).append(gmi.id)
        shared = {core: sorted(ids) for core, ids in owners.items() if len(ids) > 1}
        return [
            f"core {core}{_on(node)} is given to GMIs {ids}: give each its own, or say `share_cores: true`"
            for core, ids in shared.items()
        ]

    def _limit_mistakes(self) -> list[str]:
        limits = sorted(set(get_args(Limit)) - BACKENDS.find(self.backend).enforces)
        return [
            f"GMI {gmi.id} has a {limit}, which backend {self.backend!r} does not enforce: "
            "leave it out or cut by a backend that does"
            for gmi in self.gmis
            for limit in limits
            if getattr(gmi, limit) is not None
        ]

    def _group_mistakes(self) -> list[str]:
        mistakes = []
        ids = {gmi.id for gmi in self.gmis}
        for name, group in self.groups.items():
            if not re.fullmatch(NAME, name):
                mistakes.append(f"group {name!r}: its name must be letters, digits, _ and -: files have it")
            once = set(group.members)
            if len(once) != len(group.members) or not once <= ids:
                mistakes.append(f"group {name!r} must list existing GMIs, each once, got {list(group.members)}")
            elif mistake := self._reduction_mistake(group):
                mistakes.append(f"group {name!r}: {mistake}")
        return mistakes

    def _reduction_mistake(self, group: GmiGroup) -> str | None:
        kind, *others = {self._device_by_gmi[gmi_id].kind for gmi_id in group.members}
        if others:
            return "its GMIs are on cpu and gpu, which round differently: make a group of each kind"
        if len(group.members) == 1:
            return None
        mapping = by_device(group.members, self._place_of)
        hosts = len({self._device_by_gmi[gmi_id].node for gmi_id in group.members})
        method = REDUCTIONS.find(group.reduction)
        if method.maps_memory and not BACKENDS.find(self.backend).maps_memory:
            apart = f"GMIs of backend {self.backend!r} cannot"
            return f"reduction {method.name!r} maps memory of other GMIs, which {apart}: use MPR-shm"
        return refusal(method, mapping, kind, hosts)

    @cached_property
    def gmis(self) -> tuple[GMI, ...]:
        """All GMIs, by id."""
        return tuple(sorted((gmi for device in self.devices for gmi in device.gmis), key=attrgetter("id")))

    @property
    def num_env(self) -> int:
        """Environments of all GMIs together."""
        return sum(gmi.num_env for gmi in self.gmis)

    def with_role(self, role: Role) -> tuple[GMI, ...]:
        """The GMIs with a role, by id."""
        return tuple(gmi for gmi in self.gmis if role in gmi.roles)

    def device_of(self, gmi_id: int) -> Device:
        """The device of a GMI."""
        return self._device_by_gmi[gmi_id]

    def ranks_by_device(self, group: str) -> list[list[int]]:
        """The mapping list of a group, with ranks in place of ids.

        Over several machines all GMIs of one machine count as one device, since they share its memory.
        """
        members = self.groups[group].members
        return by_device(range(len(members)), lambda rank: self._place_of(members[rank]))

    @cached_property
    def nodes(self) -> tuple[str | None, ...]:
        """The machines of the layout, in the order of their devices; `(None,)` if there is only one."""
        return tuple(dict.fromkeys(device.node for device in self.devices))

    def devices_on(self, node: str | None) -> tuple[Device, ...]:
        """The devices of one machine."""
        return self._devices_by_node[node]

    def part_on(self, node: str | None) -> tuple["Layout", tuple[int, ...]]:
        """The layout of one machine, without groups and with ids from 0; and the ids of its GMIs in this layout."""
        ids = tuple(sorted(gmi.id for device in self.devices_on(node) for gmi in device.gmis))
        own = {gmi_id: number for number, gmi_id in enumerate(ids)}
        devices = tuple(
            device.model_copy(
                update={"node": None, "gmis": tuple(gmi.model_copy(update={"id": own[gmi.id]}) for gmi in device.gmis)}
            )
            for device in self.devices_on(node)
        )
        part = Layout(
            task=self.task,
            template=self.template,
            backend=self.backend,
            share_cores=self.share_cores,
            devices=devices,
        )
        return part, ids

    def _place_of(self, gmi_id: int) -> str | int:
        device = self._device_by_gmi[gmi_id]
        return device.index if device.node is None else device.node

    @cached_property
    def _devices_by_node(self) -> dict[str | None, tuple[Device, ...]]:
        by_node: dict[str | None, list[Device]] = {}
        for device in self.devices:
            by_node.setdefault(device.node, []).append(device)
        return {node: tuple(devices) for node, devices in by_node.items()}

    @cached_property
    def _device_by_gmi(self) -> dict[int, Device]:
        return {gmi.id: device for device in self.devices for gmi in device.gmis}

    @property
    def digest(self) -> str:
        """A hex digest of the layout without `projection`, `reasons` and `made_for`, which do not affect a run.

        Default values are left out, too, so that fields added by later versions change no digest.
        """
        decisive = self.model_dump(mode="json", exclude={"made_for", "projection", "reasons"}, exclude_defaults=True)
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


def _on(node: str | None) -> str:
    return f" on node {node}" if node else ""
