"""Channels of experience between the agents and the trainers of a host, and the parameters that go back."""

import platform

import torch

from gmi_drl.comm.channels.agent import AgentEnd
from gmi_drl.comm.channels.dispenser import Place
from gmi_drl.comm.channels.memory import ChannelMemory, create_memory
from gmi_drl.comm.channels.parameters import packed_bytes
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.channels.trainer import Batch, TrainerEnd
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.hardware import STORES_IN_ORDER
from gmi_drl.memory.bells import Bells
from gmi_drl.memory.lock import SharedLock
from gmi_drl.memory.post import Post, PostMemory

__all__ = [
    "AgentEnd",
    "Batch",
    "ChannelSizes",
    "Place",
    "TrainerEnd",
    "agent_end",
    "create_memory",
    "obstacle",
    "packed_bytes",
    "trainer_end",
]


def obstacle() -> str | None:
    """Why this machine cannot have channels; None if it can."""
    processor = platform.machine()
    if processor in STORES_IN_ORDER:
        return None
    return f"channels need a processor of {', '.join(STORES_IN_ORDER)}, not {processor}"


def agent_end(memory: int, post: Post, gmi_id: int, sizes: ChannelSizes, hang_s: float) -> AgentEnd:
    """Join the channels as an agent; returns when the first trainer has made their memory.

    Args:
        memory: Of `create_memory`; it stays the caller's to close, when the end is of no more use.
        post: Whose bells.
        gmi_id: This process, one of the sizes' agents.
        sizes: The same for all ends.
        hang_s: Seconds after which a peer that lives counts as silent.

    Raises:
        UsageError: If the GMI is no agent, or the memory was made for other sizes.
        MachineError: If this processor does not store in order.
        PeerDiedError: If the first trainer has ended.
        PeerSilentError: If it has not made the memory within `hang_s`.
    """
    return AgentEnd(*_opened(memory, post, gmi_id, sizes, hang_s, "agents"))


def trainer_end(
    memory: int, post: Post, gmi_id: int, sizes: ChannelSizes, hang_s: float, device: torch.device | str = "cpu"
) -> TrainerEnd:
    """Join the channels as a trainer, the first of which makes their memory.

    Args:
        memory: As of `agent_end`.
        post: As of `agent_end`.
        gmi_id: This process, one of the sizes' trainers.
        sizes: The same for all ends.
        hang_s: Seconds after which a peer that lives counts as silent.
        device: Where batches shall be: on a CPU they are the shared memory itself.

    Raises:
        UsageError: If the GMI is no trainer, or the memory was made for other sizes.
        MachineError: If there is not enough memory, or this processor does not store in order.
        PeerDiedError: If the first trainer has ended.
        PeerSilentError: If it has not made the memory within `hang_s`.
    """
    return TrainerEnd(*_opened(memory, post, gmi_id, sizes, hang_s, "trainers"), torch.device(device))


def _opened(
    memory: int, post: Post, gmi_id: int, sizes: ChannelSizes, hang_s: float, part: str
) -> tuple[ChannelMemory, SharedLock, Bells]:
    if reason := obstacle():
        raise MachineError(reason)
    members: tuple[int, ...] = getattr(sizes, part)
    if gmi_id not in members:
        raise UsageError(f"GMI {gmi_id} is not among the {part} of these channels: {members}")
    if (last := max(sizes.agents + sizes.trainers)) >= len(post.bells):
        raise UsageError(f"GMI {last} is not among the {len(post.bells)} of this post")
    bells = Bells(post, PostMemory(post.memory, len(post.bells)), gmi_id, hang_s)
    try:
        opened = ChannelMemory(memory, sizes, bells)
    except BaseException:
        bells.close()
        raise
    return opened, SharedLock(memory, opened.lock_holder, gmi_id, hang_s), bells
