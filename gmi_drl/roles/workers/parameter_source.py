"""Where a policy worker has the parameters from: trainers of its host, the receiver of its host, or another host."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from gmi_drl.comm.channels import join_as_reader, packed_bytes
from gmi_drl.comm.host_links import AGENT, PROXY, connect, proxy_group_name, proxy_membership
from gmi_drl.comm.parameters.host_memory import HostParameters, HostSizes
from gmi_drl.comm.parameters.receiver import ParameterReceiver
from gmi_drl.config.run_config import RunConfig
from gmi_drl.layout.pools import pool_of, receivers
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.decoupled.channel_setup import channel_sizes
from gmi_drl.roles.decoupled.startup import TaskInfo, receive_task_info
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.peer import Peer
from gmi_drl.roles.workers.newest_policy import Reader


class ParameterSource(Protocol):
    """Tells what the task is like, and gives the parameters."""

    def receive(self) -> TaskInfo:
        """Wait until it is known what the task is like, for as long as simulators may load."""

    def open(self, config: RunConfig, info: TaskInfo, tensors: Sequence[Tensor]) -> Reader:
        """Read from now on. `tensors` are those that trainers publish, for their sizes."""


class TrainersHere:
    """Trainers on this host, whose channels have the parameters.

    Args:
        mgr: Of the policy worker.
    """

    def __init__(self, mgr: GMI_manager) -> None:
        self._mgr = mgr

    def receive(self) -> TaskInfo:
        """See `ParameterSource`. The first trainer tells it when the channels have their memory."""
        return receive_task_info(self._mgr, pool_of(self._mgr.layout, self._mgr.gmi.id).trainers[0])

    def open(self, config: RunConfig, info: TaskInfo, tensors: Sequence[Tensor]) -> Reader:
        """See `ParameterSource`."""
        mgr = self._mgr
        sizes = channel_sizes(mgr, config, info.spec, len(info.terms), tensors)
        return join_as_reader(*mgr.channel_memory, mgr.gmi.id, sizes, mgr.hang_s, mgr.waits)


class ReceiverHere:
    """Another policy worker of this host, which receives the parameters for all.

    Args:
        mgr: Of the policy worker.
        workers: The policy workers of this host; the first receives.
    """

    def __init__(self, mgr: GMI_manager, workers: Sequence[int]) -> None:
        self._mgr, self._workers = mgr, workers

    def receive(self) -> TaskInfo:
        """See `ParameterSource`."""
        return receive_task_info(self._mgr, self._workers[0])

    def open(self, config: RunConfig, info: TaskInfo, tensors: Sequence[Tensor]) -> Reader:
        """See `ParameterSource`."""
        return _of_host(self._mgr, self._workers, tensors)


class TrainersElsewhere:
    """Trainers on another host: this policy worker receives for all of its host. Connected at once.

    Args:
        mgr: Of the policy worker.
        workers: The policy workers of this host, this one first.

    Raises:
        PeerDiedError: If the proxy on the trainers' host has ended.
        PeerSilentError: If it does not connect within `hang_s`.
    """

    def __init__(self, mgr: GMI_manager, workers: Sequence[int]) -> None:
        self._mgr, self._workers = mgr, workers
        member = proxy_membership(mgr.gmi.id, AGENT, pool_of(mgr.layout, mgr.gmi.id).node, mgr.hang_s)
        connection = connect(member, mgr.resources.rendezvous[proxy_group_name(mgr.gmi.id)])
        self._receiver = ParameterReceiver(connection, member.name(PROXY), mgr.hang_s)

    def receive(self) -> TaskInfo:
        """See `ParameterSource`. The others of this host are told, too, once."""
        info = TaskInfo(self._receiver.info(LOADING_S))
        for gmi_id in self._workers[1:] if not self._mgr.predecessors else ():
            Peer(self._mgr, gmi_id).send(info.text)
        return info

    def open(self, config: RunConfig, info: TaskInfo, tensors: Sequence[Tensor]) -> Reader:
        """See `ParameterSource`."""
        sizes = channel_sizes(self._mgr, config, info.spec, len(info.terms), tensors)
        self._receiver.start(sizes, _of_host(self._mgr, self._workers, tensors))
        return self._receiver


def _of_host(mgr: GMI_manager, workers: Sequence[int], tensors: Sequence[Tensor]) -> HostParameters:
    """The parameters of this host, of which the first of these policy workers makes the memory."""
    first, *others = workers
    sizes = HostSizes(packed_bytes(tensors), first, tuple(others))
    return HostParameters(
        *mgr.channel_memory,
        mgr.gmi.id,
        sizes,
        mgr.hang_s,
        mgr.waits.behind,
        predecessors=mgr.predecessors,
        awaits_successors=mgr.agents_are_restarted,
    )


def parameter_source(mgr: GMI_manager) -> ParameterSource:
    """Where a policy worker has its parameters from."""
    workers = receivers(mgr.layout).get(mgr.layout.device_of(mgr.gmi.id).node)
    if workers is None:
        return TrainersHere(mgr)
    return TrainersElsewhere(mgr, workers) if workers[0] == mgr.gmi.id else ReceiverHere(mgr, workers)
