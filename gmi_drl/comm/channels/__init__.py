"""Channels of experience from agents to trainers, and the parameters that go back.

The four components of the paper's section 4.2, in one memory that all share (`channel_memory.py`):

- the **dispenser** (`dispenser.py`), on each agent: what was written of a rollout goes into channels by kind;
- the **compressor** (`batches.py`): what all agents write of a kind lies side by side, so it moves at once;
- the **migrator** (`memory/leases.py`): an agent leases its next place from the trainer with the least workload;
- the **batcher** (`batcher.py`), on each trainer: whole batches, in order, each step once.

**What bounds the lag.** One update trains on a batch of R rollouts of each trainer and makes one version. A trainer has
`max_lag + 1` batches. It takes them in order, and gives batch k back when version k + 1 is published (versions count
from 0 here). So place p, which is in batch k = p // R, can be leased only when batch k - max_lag - 1 has come back,
that is when version k - max_lag is published. An agent that takes the newest parameters after it has leased acts by
that version or a later one, and batch k is trained on by version k: at most `max_lag` versions lie between. A place
that its agent left unfinished is leased again later, so its next rollout is by no older version. In an example, an
agent leases as far ahead as it can before each update:

    >>> import torch
    >>> from gmi_drl.errors import PeerSilentError
    >>> from gmi_drl.layout.experience import RolloutForm
    >>> from gmi_drl.layout.channels import Channels
    >>> from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
    >>> from gmi_drl.workload.spaces import continuous, vector
    >>> form = RolloutForm(horizon=2, num_env=1, observation=vector(3), action=continuous(1))
    >>> def lags(max_lag):
    ...     mailboxes, memory, weights = create_mailboxes([0, 1]), create_memory(), [torch.zeros(4)]
    ...     sizes = ChannelSizes(form, 1, (1,), (0,), Channels(max_lag=max_lag), packed_bytes(weights))
    ...     trainer = join_as_trainer(memory, mailboxes, 0, sizes, hang_s=0.01)
    ...     agent = join_as_agent(memory, mailboxes, 1, sizes, hang_s=0.01)
    ...     trainer.parameters.publish(0, weights)
    ...     seen = []
    ...     for version in range(5):
    ...         try:
    ...             while place := agent.lease():
    ...                 place.views["facts"][0] = agent.parameters.read_into(weights)
    ...                 for kind in place.views:
    ...                     place.wrote_whole(kind)
    ...                 place.commit()
    ...         except PeerSilentError:  # no place is free
    ...             batch = trainer.take()
    ...         seen.append(version - int(batch.views["facts"][0, 0]))
    ...         trainer.parameters.publish(version + 1, weights)
    ...         trainer.give_back()
    ...     return seen
    >>> lags(0), lags(2)
    ([0, 0, 0, 0, 0], [0, 1, 2, 2, 2])

**Bounded.** The memory has its final size from the start, and is sealed. Before it leases, an agent waits for a place
and for room in its trainer's queue for all records of a rollout; a trainer waits for a whole batch. Each wait is a
sleep that ends when the other process ends, and has a deadline that starts again while trainers receive anything
(`gmi_drl.layout.waits`).

**Nothing lost, nothing twice.** A record has the number of its place, of its agent's rollout, of its steps and of
itself; a record that does not follow the one before is an error. When an agent ends, its whole rollouts are kept; its
unfinished rollouts are dropped and counted by that cause, and their places are leased again, unless its kernels may
still write there (`gpu_direct.py`). Another process may go on as that agent: it knows how many processes were before
it, and its rollouts have numbers that none of them has used.

**Between hosts.** The trainers of a pool (`gmi_drl.layout.pools`) share a host, which holds this memory; other hosts
that train have pools and memory of their own. An agent on another host has an end with the same promises
(`remote_agent.py`), and a proxy on the host of its trainers that uses the local end (`proxy.py`). One process has the
proxies of all agents of a host (`proxy_host.py`). The proxy leases a place and then reads the newest parameters, which
go to the agent with it, so the lag has the same bound.
"""

import torch

from gmi_drl.comm.channels.agent_end import AgentEnd
from gmi_drl.comm.channels.channel_memory import ChannelMemory, MappedOnce, create_memory
from gmi_drl.comm.channels.dispenser import Place
from gmi_drl.comm.channels.local_agent import LocalAgentEnd
from gmi_drl.comm.channels.parameter_reader import ParameterReader
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.channels.trainer_end import Batch, TrainerEnd
from gmi_drl.comm.membership import Keepalives
from gmi_drl.comm.memory import fence
from gmi_drl.comm.memory.mailbox_memory import Mailboxes
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.shared_lock import SharedLock
from gmi_drl.comm.parameters.shared_memory import packed_bytes
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.layout.waits import Waits, waits_by_channels

__all__ = [
    "AgentEnd",
    "Batch",
    "ChannelSizes",
    "ParameterReader",
    "Place",
    "TrainerEnd",
    "create_memory",
    "join_as_agent",
    "join_as_reader",
    "join_as_trainer",
    "obstacle",
    "packed_bytes",
]


def obstacle() -> str | None:
    """Why this machine cannot have channels; None if it can."""
    return fence.obstacle("channels")


def join_as_agent(
    memory: int,
    mailboxes: Mailboxes,
    gmi_id: int,
    sizes: ChannelSizes,
    hang_s: float,
    device: torch.device | str = "cpu",
    predecessors: int = 0,
    waits: Waits | None = None,
    mapped: MappedOnce | None = None,
) -> LocalAgentEnd:
    """Join the channels as an agent. Returns when the first trainer has made their memory.

    Args:
        memory: Of `create_memory`; the caller closes it after the last use of the end.
        mailboxes: Of the GMIs of this host.
        gmi_id: This process, one of the sizes' agents.
        sizes: The same for all ends.
        hang_s: Seconds after which a living peer counts as silent.
        device: Where the places of a direct agent are; those of other agents are in the shared memory.
        predecessors: How many processes were this agent before, and have ended.
        waits: Of the layout; None: as if the trainers of these sizes were all.
        mapped: The same memories, if this process is several agents; None: they are mapped for this one.

    Raises:
        UsageError: If the GMI is no agent, or the memory was made for other sizes.
        MachineError: If this processor does not store in order.
        PeerDiedError: If the first trainer has ended.
        PeerSilentError: If it has not made the memory within `hang_s`.
    """
    opened = _opened(memory, mailboxes, gmi_id, sizes, hang_s, "agents", mapped)
    patience = (waits or waits_by_channels(len(sizes.trainers))).trainer
    return LocalAgentEnd(*opened, torch.device(device), predecessors, patience)


def join_as_reader(
    memory: int,
    mailboxes: Mailboxes,
    gmi_id: int,
    sizes: ChannelSizes,
    hang_s: float,
    waits: Waits | None = None,
    mapped: MappedOnce | None = None,
) -> ParameterReader:
    """Join the channels as one of the readers. For arguments and errors see `join_as_agent`."""
    patience = (waits or waits_by_channels(len(sizes.trainers), are_served=True)).behind
    return ParameterReader(*_opened(memory, mailboxes, gmi_id, sizes, hang_s, "readers", mapped), patience)


def join_as_trainer(
    memory: int,
    mailboxes: Mailboxes,
    gmi_id: int,
    sizes: ChannelSizes,
    hang_s: float,
    device: torch.device | str = "cpu",
    awaits_successors: bool = False,
    keepalives: Keepalives | None = None,
) -> TrainerEnd:
    """Join the channels as a trainer. The first trainer makes their memory.

    Args:
        memory: As of `join_as_agent`.
        mailboxes: As of `join_as_agent`.
        gmi_id: This process, one of the sizes' trainers.
        sizes: The same for all ends.
        hang_s: Seconds after which a living peer counts as silent.
        device: Where batches shall be: on a CPU they are the shared memory itself.
        awaits_successors: Whether ended agents may be replaced: if all have ended, this trainer waits `hang_s` for a
            successor.
        keepalives: Of this process, sent when this trainer receives experience; None: nobody else waits.

    Raises:
        UsageError: If the GMI is no trainer, or the memory was made for other sizes.
        MachineError: If there is not enough memory, or this processor does not store in order.
        PeerDiedError: If the first trainer has ended.
        PeerSilentError: If it has not made the memory within `hang_s`.
    """
    return TrainerEnd(
        *_opened(memory, mailboxes, gmi_id, sizes, hang_s, "trainers"),
        torch.device(device),
        awaits_successors=awaits_successors,
        keepalives=keepalives or Keepalives(),
    )


def _opened(
    memory: int,
    mailboxes: Mailboxes,
    gmi_id: int,
    sizes: ChannelSizes,
    hang_s: float,
    part: str,
    mapped: MappedOnce | None = None,
) -> tuple[ChannelMemory, SharedLock, Notifier]:
    if reason := obstacle():
        raise MachineError(reason)
    members: tuple[int, ...] = getattr(sizes, part)
    if gmi_id not in members:
        raise UsageError(f"GMI {gmi_id} is not among the {part} of these channels: {members}")
    if absent := [gmi for gmi in sizes.agents + sizes.trainers + sizes.readers if gmi not in mailboxes.eventfds]:
        raise UsageError(f"GMI {absent[0]} is not among the {len(mailboxes.eventfds)} GMIs that share mailboxes")
    mapped = mapped or MappedOnce(memory, mailboxes)
    notifier = Notifier(mailboxes, mapped.mailboxes, gmi_id, hang_s)
    try:
        opened = mapped.channels(sizes, notifier)
    except BaseException:
        notifier.close()
        raise
    return opened, SharedLock(memory, opened.lock_holder, gmi_id, hang_s), notifier
