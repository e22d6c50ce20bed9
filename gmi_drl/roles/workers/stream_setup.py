"""The sizes of a layout's inference stream, and how its ends are opened."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from gmi_drl.comm.host_links import CLIENT, SERVER, connect, listen_again, stream_link_name, stream_membership
from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.links.handshake import PeerListener
from gmi_drl.comm.streams import StreamClient, StreamServer, StreamSizes, join_stream
from gmi_drl.comm.streams.far_client import far_client
from gmi_drl.config.run_config import RunConfig
from gmi_drl.layout.late_nodes import late_actors
from gmi_drl.layout.servers import far_clients, service_of
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.peer import Peer
from gmi_drl.roles.workers.forward import kinds_of
from gmi_drl.roles.workers.late_clients import LateClients
from gmi_drl.workload import TaskSpec

_US = 1e-6


def stream_sizes(mgr: GMI_manager, config: RunConfig, spec: TaskSpec) -> StreamSizes:
    """The sizes that all ends share."""
    service = service_of(mgr.layout, mgr.gmi.id)
    actor = mgr.layout.gmis[service.clients[0][0]]
    request, answer = kinds_of(spec, config.learner.rollout_form(spec, actor.num_env), actor.ring)
    return StreamSizes(request, answer, actor.num_env // actor.ring, service.servers, service.clients, actor.ring)


def connect_server(mgr: GMI_manager) -> FramedConnection | None:
    """The connection of an actor to its policy worker, if that is on another host; None if not.

    Raises:
        PeerDiedError: If the policy worker has ended.
        PeerSilentError: If it does not connect within `hang_s`.
    """
    return _connect(mgr, mgr.hang_s) if mgr.gmi.id in far_clients(mgr.layout) else None


def connect_clients(mgr: GMI_manager) -> tuple[dict[int, FramedConnection | None], LateClients | None]:
    """The connections of a policy worker to its actors on other hosts, by id, None of those that may come later.

    To one that is started again they all come later: when they wait for an answer.

    Returns:
        Also who tells of these, and of those that are lost or come again; None if no actor is on another host.

    Raises:
        PeerSilentError: With those of the others that do not connect within `hang_s`.
    """
    own, late = mgr.gmi.id, late_actors(mgr.layout)
    far = [client for client, service in far_clients(mgr.layout).items() if service.server_of(client) == own]
    if not far:
        return {}, None
    changes = LateClients({client: _listener(mgr, client, own) for client in far}, mgr.launcher)
    awaited = [] if mgr.predecessors else [client for client in far if client not in late]
    needed = changes.await_all(awaited, own, mgr.hang_s)
    return dict.fromkeys(far) | needed, changes


def open_client(mgr: GMI_manager, sizes: StreamSizes, far: FramedConnection | None = None) -> StreamClient:
    """Wait for the stream's memory, for as long as simulators may load. Returns the actor's end.

    Args:
        mgr: Of the actor.
        sizes: Of the stream.
        far: Of `connect_server`.
    """
    if far is not None:
        again = partial(_connect, mgr) if mgr.agents_are_restarted else None
        return far_client(far, mgr.gmi.id, sizes, mgr.hang_s, LOADING_S, again)
    if not mgr.predecessors:
        Peer(mgr, sizes.server_of(mgr.gmi.id)).receive(LOADING_S)
    memory, notifier = join_stream(*mgr.stream_memory, mgr.gmi.id, sizes, mgr.hang_s)
    restarts = mgr.agents_are_restarted
    return StreamClient(memory, notifier, _spin_s(mgr), mgr.predecessors, awaits_successors=restarts)


def open_server(
    mgr: GMI_manager,
    sizes: StreamSizes,
    progress: Callable[[], object],
    least_s: float = 0.0,
    far: Mapping[int, FramedConnection | None] = MappingProxyType({}),
    changes: LateClients | None = None,
) -> StreamServer:
    """The policy worker's end. Tells its actors that the memory is there, unless its predecessor has.

    Args:
        mgr: Of the policy worker.
        sizes: Of the stream.
        progress: A wait for requests starts again whenever this value changes.
        least_s: Wait at least this long for a request, in seconds.
        far: Of `connect_clients`.
        changes: Of `connect_clients`.
    """
    settings = mgr.layout.streams
    assert settings is not None  # as its template has checked
    memory, notifier = join_stream(*mgr.stream_memory, mgr.gmi.id, sizes, mgr.hang_s)
    for actor in sizes.clients_of(mgr.gmi.id) if not mgr.predecessors else ():
        if actor not in far:
            Peer(mgr, actor).send("room")
    return StreamServer(
        memory,
        notifier,
        wait_s=settings.wait_ms / 1000,
        most_rows=settings.most_rows,
        spin_s=_spin_s(mgr),
        patience=max(mgr.waits.behind, least_s / mgr.hang_s),
        progress=progress,
        awaits_successors=mgr.agents_are_restarted,
        predecessors=mgr.predecessors,
        far=far,
        changes=changes,
    )


def _connect(mgr: GMI_manager, most_s: float) -> FramedConnection:
    """Connect to the policy worker on another host, or to its successor, within `most_s` seconds."""
    own = mgr.gmi.id
    member = stream_membership(own, service_of(mgr.layout, own).server_of(own), CLIENT, most_s, mgr.predecessors)
    return connect(member, mgr.resources.rendezvous[stream_link_name(own)])


def _listener(mgr: GMI_manager, client: int, server: int) -> PeerListener:
    member = stream_membership(client, server, SERVER, mgr.hang_s, mgr.predecessors)
    return listen_again(member, mgr.resources.rendezvous[stream_link_name(client)])


def _spin_s(mgr: GMI_manager) -> float:
    """Seconds of looking before sleeping: none where the peer needs the core."""
    settings = mgr.layout.streams
    return 0.0 if settings is None or mgr.layout.share_cores else settings.spin_us * _US
