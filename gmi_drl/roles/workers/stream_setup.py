"""The sizes of a layout's inference stream, and how its ends are opened."""

from collections.abc import Callable

from gmi_drl.comm.streams import StreamClient, StreamServer, StreamSizes, join_stream
from gmi_drl.config.run_config import RunConfig
from gmi_drl.layout.servers import Service, service_of
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.peer import Peer
from gmi_drl.roles.workers.forward import kinds_of
from gmi_drl.workload import TaskSpec

_US = 1e-6


def stream_sizes(mgr: GMI_manager, config: RunConfig, spec: TaskSpec) -> StreamSizes:
    """The sizes that all ends share."""
    service = _service(mgr)
    actor = mgr.layout.gmis[service.clients[0][0]]
    request, answer = kinds_of(spec, config.learner.rollout_form(spec, actor.num_env), actor.ring)
    return StreamSizes(request, answer, actor.num_env // actor.ring, service.servers, service.clients, actor.ring)


def open_client(mgr: GMI_manager, sizes: StreamSizes) -> StreamClient:
    """Wait for the stream's memory, for as long as simulators may load. Returns the actor's end."""
    if not mgr.predecessors:
        Peer(mgr, sizes.server_of(mgr.gmi.id)).receive(LOADING_S)
    memory, notifier = join_stream(*mgr.stream_memory, mgr.gmi.id, sizes, mgr.hang_s)
    restarts = mgr.agents_are_restarted
    return StreamClient(memory, notifier, _spin_s(mgr), mgr.predecessors, awaits_successors=restarts)


def open_server(
    mgr: GMI_manager, sizes: StreamSizes, progress: Callable[[], object], least_s: float = 0.0
) -> StreamServer:
    """The policy worker's end. Tells its actors that the memory is there, unless its predecessor has.

    Args:
        mgr: Of the policy worker.
        sizes: Of the stream.
        progress: A wait for requests starts again whenever this value changes.
        least_s: Wait at least this long for a request, in seconds.
    """
    settings = mgr.layout.streams
    assert settings is not None  # as its template has checked
    memory, notifier = join_stream(*mgr.stream_memory, mgr.gmi.id, sizes, mgr.hang_s)
    for actor in sizes.clients_of(mgr.gmi.id) if not mgr.predecessors else ():
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
    )


def _service(mgr: GMI_manager) -> Service:
    service = service_of(mgr.layout)
    assert service is not None  # as its template has checked
    return service


def _spin_s(mgr: GMI_manager) -> float:
    """Seconds of looking before sleeping: none where the peer needs the core."""
    settings = mgr.layout.streams
    return 0.0 if settings is None or mgr.layout.share_cores else settings.spin_us * _US
