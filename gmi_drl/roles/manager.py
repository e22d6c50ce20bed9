"""The GMIs of a run as one of them sees it (paper section 3, Listing 1)."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from gmi_drl.comm import open_group, open_reduction
from gmi_drl.comm.host_links import can_receive_from, can_send_to
from gmi_drl.comm.links.alone import AloneLink
from gmi_drl.comm.links.handshake import RankAddresses
from gmi_drl.comm.links.link import MovingLink
from gmi_drl.comm.links.sockets import SocketLink
from gmi_drl.comm.membership import Keepalives, Membership
from gmi_drl.comm.memory.mailbox_memory import Mailboxes
from gmi_drl.comm.messages.messages import Messages, Sending
from gmi_drl.comm.reduction import Reduction
from gmi_drl.comm.rendezvous import Rendezvous, link_name
from gmi_drl.config.run_config import RunConfig, load_config
from gmi_drl.errors import GmiError, MachineError, UsageError, did_you_mean
from gmi_drl.layout.layout import GMI, Layout
from gmi_drl.layout.policies import layout_of
from gmi_drl.layout.reductions import NONE, REDUCTIONS
from gmi_drl.layout.waits import Waits, waits_of
from gmi_drl.roles.launcher.connection import LauncherConnection
from gmi_drl.roles.launcher.protocol import Report
from gmi_drl.roles.launcher.remote_checkpoint_store import RemoteCheckpointStore
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.roles.precision import require_bf16, set_precision
from gmi_drl.run.checkpoint_store import CheckpointStore
from gmi_drl.run.file_presence import pinned
from gmi_drl.run.folder import RunFolder

if TYPE_CHECKING:
    from gmi_drl.roles.open_tasks import Closable

ALONE = "(alone)"
"""The group of a GMI that is in no group of the layout. No group of a layout can have this name."""


@dataclass(frozen=True)
class NamedGroup:
    """A group of GMIs that reduce together. The index of a GMI in `members` is its rank."""

    name: str
    members: tuple[int, ...]


@dataclass
class GMI_manager:
    """The layout, this process's GMI and its groups. There is one manager in a process; `add_GMI` returns it.

    Attributes:
        layout: All GMIs.
        gmi: The GMI of this process.
        run_folder: The files of this run.
        rendezvous_folder: A folder of this launch, for rendezvous that need a path.
        launcher: The connection to the launcher.
        resources: What this GMI shares with others.
        hang_s: Deadline in seconds of every wait for another GMI, times the factors of `waits`.
        waits: Of the layout.
        keepalives: Show others, and the launcher, that this GMI waits and does not hang.
        predecessors: How many processes of this GMI have died since the run was started.
        agents_are_restarted: Whether an agent that dies is started again while the others go on.
        tasks: The tasks of this process that are not closed yet; see `roles.open_tasks`.
        is_remote: Whether the launcher is on a host that does not see `run_folder`; see `checkpoint_store`.
    """

    layout: Layout
    gmi: GMI
    run_folder: Path
    rendezvous_folder: Path
    launcher: LauncherConnection
    resources: Resources
    hang_s: float
    tasks: list["Closable"] = field(default_factory=list)
    is_remote: bool = False
    predecessors: int = 0
    agents_are_restarted: bool = False
    waits: Waits = field(init=False)
    keepalives: Keepalives = field(default_factory=Keepalives)
    _reductions: dict[str, Reduction] = field(default_factory=dict)
    _failures: dict[str, GmiError] = field(default_factory=dict)
    _links: list[MovingLink] = field(default_factory=list)
    _messages: Messages | None = None
    _current: ClassVar["GMI_manager | None"] = None

    def __post_init__(self) -> None:
        self.waits = waits_of(self.layout)
        self.keepalives.send.append(self.launcher.renew)
        # Before any role runs: from now on others can send to this GMI, and see its death.
        if self.resources.mailboxes and Messages.obstacle() is None:
            self._messages = Messages(self.resources.mailboxes, self.gmi.id, self.hang_s, self.keepalives)

    def become_current(self) -> None:
        """Make this the manager of the process."""
        type(self)._current = self

    @classmethod
    def add_GMI(cls, GMI_id: int) -> "GMI_manager":
        """The manager of this process, which must be that GMI.

        Raises:
            UsageError: if the process is no GMI, or another one.
        """
        manager = cls._current
        if manager is None:
            raise UsageError('this process is not a GMI: start roles with `run_role("file.py:MyRole", layout)`')
        if manager.gmi.id != GMI_id:
            raise UsageError(f"this process is GMI {manager.gmi.id}, it cannot be added as GMI {GMI_id}")
        return manager

    def set_GPU(self, GMI_id: int, gpu_id: int) -> None:
        """Check that a GMI is on this device, an index within the layout's devices of its kind.

        Raises:
            UsageError: if the layout has it on another one: the layout decides, before CUDA starts.
        """
        device = self.layout.device_of(GMI_id)
        if device.index != gpu_id:
            raise UsageError(f"the layout has GMI {GMI_id} on {device.kind} {device.index}, not on {gpu_id}")

    def of_policy(self, name: str, rows: tuple[int, int] = (1, 1)) -> Self:
        """This GMI as one of several policies sees it, for an actor: the layout, the folder and the memories of it.

        Args:
            name: Of the policy.
            rows: See `layout.policies.layout_of`.
        """
        seen = copy(self)
        seen.layout = layout_of(self.layout, name, rows)
        seen.gmi, seen.waits = seen.layout.gmis[self.gmi.id], waits_of(seen.layout)
        seen.run_folder = RunFolder(self.run_folder).policy(name).path
        seen.resources = self.resources.of_policy(name)
        return seen

    def configure(self) -> RunConfig:
        """Load the configuration of the run, and apply its settings that hold for the whole process (`tf32`).

        Raises:
            MachineError: if the device cannot compute as `bf16` asks.
        """
        config = load_config(RunFolder(self.run_folder).config_file)
        set_precision(self.device, tf32=config.tf32)
        if config.learner.network.bf16:
            require_bf16(self.device)
        return config

    def checkpoint_store(self) -> CheckpointStore:
        """The store of the run's checkpoints and files: through the launcher on a host without the run folder."""
        checkpoints = pinned(RunFolder(self.run_folder).checkpoints)  # another run's folder may take its name later
        return RemoteCheckpointStore(checkpoints, self.launcher) if self.is_remote else CheckpointStore(checkpoints)

    @property
    def device(self) -> torch.device:
        """Device of this GMI's tensors. A GMI sees one GPU only, so on a GPU it is `cuda:0`.

        Raises:
            MachineError: if the GMI is on a GPU and this build of torch has no CUDA.
        """
        if self.layout.device_of(self.gmi.id).kind == "cpu":
            return torch.device("cpu")
        if not torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
            raise MachineError(
                f"torch {torch.__version__} is built without CUDA, and GMI {self.gmi.id} is on a GPU: "
                "install one with CUDA (https://pytorch.org/get-started)"
            )
        return torch.device("cuda:0")

    def get_group(self, *GMI_ids: int) -> NamedGroup:
        """The smallest group that has all these GMIs; `get_group(i, i)`, as the paper writes it, is GMI i's own.

        If several have the same size, the first in the layout: use `named_group` where GMIs are in more than one. A GMI
        that is in no group of the layout is alone.

        Raises:
            UsageError: if no group has them all.
        """
        known = {name: group.members for name, group in self.layout.groups.items()}
        groups = [NamedGroup(name, members) for name, members in known.items() if set(GMI_ids) <= set(members)]
        if not groups and set(GMI_ids) == {self.gmi.id}:
            return NamedGroup(ALONE, (self.gmi.id,))
        if not groups:
            raise UsageError(f"the layout has no group with GMIs {sorted(set(GMI_ids))}: groups {known}")
        return min(groups, key=lambda group: len(group.members))

    def named_group(self, name: str) -> NamedGroup:
        """The group of this name.

        Raises:
            UsageError: if the layout has none.
        """
        if name not in self.layout.groups:
            raise UsageError(f"the layout has no group {name!r}{did_you_mean(name, list(self.layout.groups))}")
        return NamedGroup(name, self.layout.groups[name].members)

    def allreduce(self, data: Tensor, group: NamedGroup) -> None:
        """Sum a flat float32 tensor in place over a group; all members must call it, in the same order."""
        self.reduction(group).reduce(data)

    def reduction(self, group: NamedGroup) -> Reduction:
        """The reduction of a group, opened at its first use; every member must call this.

        An error then is raised again at every later call: the ranks of a group can rendezvous only once.
        """
        if self.gmi.id not in group.members:
            raise UsageError(f"GMI {self.gmi.id} is not in group {group.name!r} of GMIs {list(group.members)}")
        if group.name in self._failures:
            raise self._failures[group.name]
        if group.name not in self._reductions:
            try:
                self._reductions[group.name] = self._open(group)
            except GmiError as error:
                self._failures[group.name] = error
                raise
        return self._reductions[group.name]

    def link(self, group: NamedGroup) -> MovingLink:
        """Link the GMIs of a group beside its reduction; every member must call this, once. A thread may use it.

        Raises:
            UsageError: if the run's learner has no shards (`LearnerConfig.has_shards`).
            PeerDiedError, PeerSilentError: if another GMI does not come.
        """
        if len(group.members) == 1:
            return AloneLink()
        point = self.resources.rendezvous.get(link_name(group.name))
        if point is None or point.listener is None or point.addresses is None:
            raise UsageError(f"group {group.name!r} has no link: those of learners with shards have one")
        made = SocketLink(self._member_of(group), RankAddresses.from_descriptor(point.addresses), point.listener)
        self._links.append(made)
        return made

    def send(self, data: Any, GMI_id: int) -> Sending:
        """Copy a tree of tensors to another GMI; see `Messages.send`. `wait()` of the result waits for the arrival."""
        return self._mailboxes_with(GMI_id, can_send_to).send(data, GMI_id)

    def recv(self, GMI_id: int) -> Any:
        """Wait for the next message of another GMI, with its tensors on this GMI's device. See `Messages.recv`."""
        return self._mailboxes_with(GMI_id, can_receive_from).recv(GMI_id, self.device)

    def recv_while_active(self, GMI_id: int, patience: float) -> Any:
        """`recv` from a GMI that may itself wait for others; see `Messages.recv_while_active`."""
        return self._mailboxes_with(GMI_id, can_receive_from).recv_while_active(GMI_id, self.device, patience)

    @property
    def channel_memory(self) -> tuple[int, Mailboxes]:
        """The descriptor of the channels' memory, and the mailboxes by which its users notify each other.

        Raises:
            UsageError: if the layout has no channels.
        """
        if self.resources.channels is None or self.resources.mailboxes is None:
            raise UsageError("this layout has no channels: add `channels: {}` to it")
        return self.resources.channels, self.resources.mailboxes

    @property
    def stream_memory(self) -> tuple[int, Mailboxes]:
        """The descriptor of the inference streams' memory, and the mailboxes by which its users notify each other.

        Raises:
            UsageError: if the layout has no streams.
        """
        if self.resources.streams is None or self.resources.mailboxes is None:
            raise UsageError("this layout has no inference streams: add `streams: {}` to it")
        return self.resources.streams, self.resources.mailboxes

    def report(self, row: dict[str, Any]) -> None:
        """Send a row of numbers (JSON) to the launcher, without ever waiting for it."""
        self.launcher.report(Report(row))

    def close(self) -> None:
        """Leave all groups."""
        with ExitStack() as opened:
            for reduction in self._reductions.values():
                opened.callback(reduction.group.close)
            for link in self._links:
                opened.callback(link.close)
            if self._messages is not None:
                opened.callback(self._messages.close)
            self._reductions, self._messages = {}, None

    def _open(self, group: NamedGroup) -> Reduction:
        if len(group.members) == 1:
            return open_reduction(NONE, open_group(NONE, Membership(0, [[0]]), Rendezvous()), self.device)
        method = REDUCTIONS.find(self.layout.groups[group.name].reduction)
        member = self._member_of(group, keepalives=self.keepalives)
        with ExitStack() as opened:
            ranks = opened.enter_context(closing(open_group(method, member, self.resources.rendezvous[group.name])))
            reduction = open_reduction(method, ranks, self.device)
            opened.pop_all()  # `close` closes them
        return reduction

    def _member_of(self, group: NamedGroup, **options: Any) -> Membership:
        return Membership(
            group.members.index(self.gmi.id),
            self.layout.ranks_by_device(group.name),
            tuple(f"GMI {gmi_id}" for gmi_id in group.members),
            self.hang_s * self.waits.rank,
            spins=not self.layout.share_cores,
            **options,
        )

    def _mailboxes_with(self, GMI_id: int, reaches: Callable[[Layout, int, int], bool]) -> Messages:
        if GMI_id in range(len(self.layout.gmis)) and not reaches(self.layout, self.gmi.id, GMI_id):
            here, there = (self.layout.device_of(gmi_id).node for gmi_id in (self.gmi.id, GMI_id))
            remedy = "messages go between GMIs of a node, sums between all"
            raise UsageError(f"GMI {GMI_id} is on node {there}, this one on {here}: {remedy}")
        if self._messages is None:
            raise MachineError(Messages.obstacle() or "this GMI was started without mailboxes")
        return self._messages

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
