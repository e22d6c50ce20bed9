"""The memory of known size that the GMIs of each host take: what they share, and rings of replay.

Processes, environments and networks are not counted. Sizes are those that will be taken at least: what they lack is a
few pages, and the parameters beside the channels.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from gmi_drl.comm.memory.record_ring import ring_bytes
from gmi_drl.comm.memory.segment import LINE_BYTES, in_pages
from gmi_drl.comm.rendezvous import shared_bytes
from gmi_drl.config.learners import LearnerConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.launch.policies import views_of
from gmi_drl.launch.rooms import Room
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.pools import far_agents, pools_of, proxied, proxy_processes
from gmi_drl.layout.reductions import REDUCTIONS
from gmi_drl.layout.servers import far_clients, services_of
from gmi_drl.units import counted, human_bytes
from gmi_drl.workload import TaskSpec

OnNode = tuple[str | None, Room]
"""A room, and the node that has it."""

PROXY_BYTES = 192 * 2**20
"""More memory than a process of proxies takes, without what each proxy adds. The tests measure it."""

EACH_PROXY_BYTES = 2**20
"""More memory than each proxy adds to its process."""

FEWER_ACTORS = "use fewer actors, environments or members of rings"
SMALLER_RINGS = "lower learner.replay.size"

_SENT = 2  # rollouts of an agent with trainers on another host: one is sent while the next is written
_LINES = 2  # of words, of each slot of a stream


def rooms_of_groups(layout: Layout, slot_bytes: int) -> list[OnNode]:
    """What sums of GMIs with slots of so many bytes need, and proxies of GMIs of other hosts."""
    return [*_sums(layout, slot_bytes), *_proxies(layout)]


def rooms_of_task(layout: Layout, config: RunConfig, task: TaskSpec) -> list[OnNode]:
    """What experience and actions between GMIs need, and rings of replay.

    Args:
        layout: Of all GMIs.
        config: Of the run.
        task: The sizes of the layout's task.
    """
    kinds = (_channels, _streams, _requests, _rollouts, _rings)
    views = [(seen, own.learner) for seen, own in views_of(layout, config, task)]
    return [room for seen, learner in views for kind in kinds for room in kind(seen, learner, task)]


def less_in_channels(learner: LearnerConfig) -> str:
    """The remedy if channels are too large."""
    settings = "learner.rollouts or max_lag" if "rollouts" in type(learner).model_fields else "max_lag"
    return f"let agents have fewer environments, or lower {settings} in the layout's channels"


def _sums(layout: Layout, slot_bytes: int) -> Iterator[OnNode]:
    for name, group in layout.groups.items():
        method, mapping = REDUCTIONS.find(group.reduction), layout.ranks_by_device(name)
        for node, ranks in _by_node(layout, enumerate(group.members)).items():
            nbytes = shared_bytes(method, mapping, slot_bytes, ranks)
            if nbytes and len(group.members) > 1:
                slots = f"{counted(len(ranks), 'slot')} of {human_bytes(slot_bytes)}, and staging"
                yield node, Room(f"the sums of {name} ({slots})", nbytes, "use fewer GMIs")


def _proxies(layout: Layout) -> Iterator[OnNode]:
    processes, places = proxy_processes(layout), {gmi_id: pool.node for gmi_id, pool in proxied(layout).items()}
    for node in dict.fromkeys(places.values()):
        guests = sum(place == node for place in places.values())
        started = sum(places[first] == node for first in processes)
        what = f"the proxies of {counted(guests, 'GMI')} of other hosts"
        needed = started * PROXY_BYTES + guests * EACH_PROXY_BYTES
        yield node, Room(what, needed, "use fewer agents, or put trainers where memory is")


def _channels(seen: Layout, learner: LearnerConfig, task: TaskSpec) -> Iterator[OnNode]:
    """Batches and queues of records; see `comm.channels.channel_memory`."""
    actors, trainers = seen.with_role("simulator"), seen.with_role("trainer")
    for pool in pools_of(seen):
        if seen.channels is None or not pool.agents:
            continue
        rollouts, batches = learner.rollouts_of(len(actors), len(trainers)), seen.channels.batches
        form = learner.rollout_form(task, actors[0].num_env)
        queue = ring_bytes(seen.channels.ring_records(form, rollouts, len(pool.agents)))
        each = batches * in_pages(form.offsets(rollouts)[-1]) + len(pool.agents) * queue
        of_each = f"{batches} batches x {rollouts} rollouts of {human_bytes(form.nbytes)}"
        queues = f"{counted(len(pool.agents), 'queue')} of {human_bytes(queue)}"
        what = f"channels ({counted(len(pool.trainers), 'trainer')}, each {of_each}, and {queues})"
        yield pool.node, Room(what, len(pool.trainers) * each, less_in_channels(learner))


def _streams(seen: Layout, learner: LearnerConfig, task: TaskSpec) -> Iterator[OnNode]:
    """The slots of inference streams, also for actors of other hosts; see `comm.streams.slots`."""
    for service in services_of(seen):
        if clients := list(chain.from_iterable(service.clients)):
            yield service.node, _slots("an inference stream", seen, learner, task, clients)


def _requests(seen: Layout, learner: LearnerConfig, task: TaskSpec) -> Iterator[OnNode]:
    """The slots of actors that ask other hosts, on their own; see `comm.streams.far_client`."""
    for node, clients in _by_node(seen, ((gmi_id, gmi_id) for gmi_id in far_clients(seen))).items():
        yield node, _slots("requests to other hosts", seen, learner, task, clients)


def _slots(who: str, seen: Layout, learner: LearnerConfig, task: TaskSpec, clients: Sequence[int]) -> Room:
    actor = seen.gmis[clients[0]]  # all are alike
    slots, rows = len(clients) * actor.ring, actor.num_env // actor.ring
    each = learner.request_bytes(task) + learner.answer_bytes(task)
    nbytes = slots * in_pages(rows * each) + in_pages(slots * _LINES * LINE_BYTES)
    return Room(f"{who} ({counted(slots, 'slot')} x {rows} rows of {human_bytes(each)})", nbytes, FEWER_ACTORS)


def _rollouts(seen: Layout, learner: LearnerConfig, task: TaskSpec) -> Iterator[OnNode]:
    """The rollouts of agents that send them to other hosts, on their own; see `comm.channels.remote_agent`."""
    for node, agents in _by_node(seen, ((gmi_id, gmi_id) for gmi_id in far_agents(seen))).items():
        each = learner.rollout_form(task, seen.gmis[agents[0]].num_env).offsets(1)[-1]
        what = f"rollouts to other hosts ({counted(len(agents), 'agent')} x {_SENT} of {human_bytes(each)})"
        yield node, Room(what, len(agents) * _SENT * each, "let agents have fewer environments")


def _rings(seen: Layout, learner: LearnerConfig, task: TaskSpec) -> Iterator[OnNode]:
    """The rings of trainers on cores, and what rings of GPUs have on their host."""
    of_rollouts, sizes = seen.channels is not None, dict[str | None, list[int]]()
    for gmi in seen.with_role("trainer"):
        device = seen.device_of(gmi.id)
        if worlds := learner.environments_of(seen) if of_rollouts else gmi.num_env:
            on_gpu = device.kind == "gpu"
            on_device, on_host = learner.ring_bytes(task, worlds, of_rollouts=of_rollouts, on_gpu=on_gpu)
            sizes.setdefault(device.node, []).append(on_host if on_gpu else on_device + on_host)
    for node, of_each in sizes.items():
        if any(of_each):
            yield node, Room(f"{counted(len(of_each), 'ring')} of replay", sum(of_each), SMALLER_RINGS)


def _by_node(layout: Layout, numbers: Iterable[tuple[int, int]]) -> dict[str | None, list[int]]:
    """The first number of each pair, by the node of the GMI that is the second."""
    found: dict[str | None, list[int]] = {}
    for number, gmi_id in numbers:
        found.setdefault(layout.device_of(gmi_id).node, []).append(number)
    return found
