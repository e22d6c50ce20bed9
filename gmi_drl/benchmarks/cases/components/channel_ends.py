"""Both ends of the channels' case: a process that sends prepared rollouts, and one that receives them."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.queues import Queue
from typing import Any

import torch
from torch import Tensor

from gmi_drl.benchmarks.case import Sample
from gmi_drl.comm.channels import (
    AgentEnd,
    ChannelSizes,
    TrainerEnd,
    create_memory,
    join_as_agent,
    join_as_trainer,
    packed_bytes,
)
from gmi_drl.comm.memory.mailbox_memory import Mailboxes, create_mailboxes
from gmi_drl.errors import GmiError
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import Kind, RolloutForm
from gmi_drl.roles.main import die_with

ROLLOUTS = 2
BY_STEP, WHOLE = "queue of steps", "queue of rollouts"
"""Messages of a queue: a tensor of one kind and step, as in uni-channel mode, or the whole rollout of a kind."""

MODES: tuple[Any, ...] = ("MCC", "UCC")
HANG_S = 60.0

_FORK = get_context("fork")  # the child inherits the descriptors
_VERSION = [torch.zeros(16)]
_DTYPES = {"float32": torch.float32, "float64": torch.float64}

Made = list[tuple[int, Kind, Tensor]]
"""A prepared rollout: number, kind and tensor of each kind of experience."""


@dataclass(frozen=True)
class Shared:
    """The shared memory and mailboxes of one mode, which both processes use."""

    memory: int
    mailboxes: Mailboxes
    sizes: ChannelSizes


class Sender:
    """The process that sends, on a core of its own. Each order names a way and a number of rollouts."""

    def __init__(self, form: RolloutForm, core: int) -> None:
        self.form = form
        self.shared = {
            mode: Shared(
                create_memory(),
                create_mailboxes([0, 1]),
                ChannelSizes(form, ROLLOUTS, (1,), (0,), Channels(mode=mode), packed_bytes(_VERSION)),
            )
            for mode in MODES
        }
        sizes = self.shared["UCC"].sizes
        most = {BY_STEP: sizes.ring_records, WHOLE: sizes.places * len(form.kinds)}
        self.queues: dict[str, Queue[tuple[int, int, Any]]] = {way: _FORK.Queue(count) for way, count in most.items()}
        self.orders, theirs = _FORK.Pipe()
        self.process = _FORK.Process(target=self._live, args=(theirs, core, os.getpid()), daemon=True)
        self.process.start()
        theirs.close()

    def close(self) -> None:
        """End the process, and free what it shares."""
        self.process.kill()
        self.process.join()
        self.orders.close()
        for queue in self.queues.values():
            queue.close()
        for shared in self.shared.values():
            os.close(shared.memory)
            shared.mailboxes.close()

    def _live(self, orders: Connection, core: int, parent: int) -> None:
        die_with(parent)
        os.sched_setaffinity(0, [core])
        torch.set_num_threads(1)
        rollout = made_rollout(self.form)
        ends = {
            name: join_as_agent(one.memory, one.mailboxes, 1, one.sizes, HANG_S) for name, one in self.shared.items()
        }
        while True:
            way, count = orders.recv()
            for _ in range(count):
                if way in ends:
                    send(rollout, self.form.horizon, ends[way])
                else:
                    _put(rollout, self.form.horizon if way == BY_STEP else 1, self.queues[way])


def send(rollout: Made, horizon: int, end: AgentEnd, work: Callable[[], None] = lambda: None) -> None:
    """Send one rollout through channels step by step, as an agent does.

    Args:
        rollout: The rollout.
        horizon: Its number of steps.
        end: The agent's end of the channels.
        work: Called before each step is written.
    """
    place = end.lease()
    if place is None:
        raise GmiError("the channels were closed while their case ran")
    views = place.views
    for step in range(horizon):
        work()
        for _, kind, made in rollout:
            if kind.is_stepwise:
                views[kind.name][step].copy_(made[step])
                place.wrote(kind.name, step)
    for _, kind, made in rollout:
        if not kind.is_stepwise:
            views[kind.name].copy_(made)
            place.wrote_whole(kind.name)
    place.commit()


def _put(rollout: Made, parts: int, queue: "Queue[tuple[int, int, Any]]") -> None:
    """Send one rollout through a queue, pickled and through a pipe; stepwise kinds are split into `parts` messages."""
    split = {number: made.tensor_split(parts) for number, kind, made in rollout if kind.is_stepwise}
    for part in range(parts):
        for number, pieces in split.items():
            queue.put((number, part, pieces[part].numpy()))
    for number, kind, made in rollout:
        if not kind.is_stepwise:
            queue.put((number, 0, made.numpy()))


class Receiver:
    """The receiving end, in this process. It receives batches by each way, reads every number once, and is timed.

    Args:
        sender: The other process.
        memory_bytes: Bytes of the source and of the target by which the memory's speed is measured: more than caches
            hold.
    """

    def __init__(self, sender: Sender, memory_bytes: int) -> None:
        self._sender = sender
        self._form = sender.form
        self._ends = {
            name: join_as_trainer(one.memory, one.mailboxes, 0, one.sizes, HANG_S)
            for name, one in sender.shared.items()
        }
        for end in self._ends.values():
            end.parameters.publish(0, _VERSION)
        self._source = torch.ones(self._form.nbytes // 4)
        self._targets = torch.zeros(sender.shared["MCC"].sizes.places, self._form.nbytes // 4)
        whole = memory_bytes // self._form.nbytes
        self._memory = [torch.ones(max(2, whole), self._form.nbytes // 4) for _ in range(2)]
        self._found = 0.0

    def channels(self, mode: str, batches: int) -> Sample:
        """Through channels: this process reads the memory that the sender wrote."""
        return self._timed(
            lambda: self._take(self._ends[mode], mode, batches),
            batches,
            self._sender.shared[mode].sizes.rollout_records,
        )

    def through_queue(self, way: str, batches: int) -> Sample:
        """Through a `multiprocessing.Queue`: each tensor arrives as a new array."""
        count = self._sender.shared["UCC"].sizes.rollout_records if way == BY_STEP else len(self._form.kinds)
        return self._timed(lambda: self._get(way, batches * ROLLOUTS * count, batches), batches, count)

    def copy(self, batches: int) -> Sample:
        """A copy of as many bytes within this process, one rollout at a time, into as many slots as channels have."""

        def copy() -> None:
            for rollout in range(batches * ROLLOUTS):
                self._read(self._targets[rollout % len(self._targets)].copy_(self._source))

        return self._timed(copy, batches, 1)

    def copy_out_of_cache(self, batches: int) -> Sample:
        """A copy of as many bytes between memory that is in no cache, the most that the memory gives one core."""
        source, target = self._memory

        def copy() -> None:
            for rollout in range(batches * ROLLOUTS):
                target[rollout % len(target)].copy_(source[rollout % len(source)])

        return self._timed(copy, batches, 1, is_read=False)

    def close(self) -> None:
        """Close the ends of the channels."""
        for end in self._ends.values():
            end.close()

    def _take(self, end: TrainerEnd, mode: str, batches: int) -> None:
        self._sender.orders.send((mode, batches * ROLLOUTS))
        for _ in range(batches):
            for view in end.take().views.values():
                self._read(view)
            end.parameters.publish(end.parameters.published(), _VERSION)
            end.give_back()

    def _get(self, way: str, count: int, batches: int) -> None:
        self._sender.orders.send((way, batches * ROLLOUTS))
        for _ in range(count):
            _, _, array = self._sender.queues[way].get(timeout=HANG_S)
            self._read(torch.from_numpy(array))

    def _read(self, tensor: Tensor) -> None:
        """Read a received tensor once. All its numbers are 1, so the sum is their count."""
        self._found += float(tensor.sum())

    def _timed(self, move: Callable[[], None], batches: int, messages: int, *, is_read: bool = True) -> Sample:
        self._found, rollouts = 0.0, batches * ROLLOUTS
        began, began_cpu = time.perf_counter(), time.process_time()
        move()
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
        sent = rollouts * (numbers_of(self._form) if messages > 1 else self._form.nbytes // 4)
        if is_read and self._found != sent:
            raise GmiError(f"{sent} numbers were sent, and {self._found:.0f} were read")
        details = {
            "messages_per_second": messages * rollouts / seconds,
            "receivers_cpu_s_of_rollout": cpu_s / rollouts,
            "rollout_s": seconds / rollouts,
        }
        return Sample(self._form.nbytes * rollouts / seconds / 1e6, details)


def numbers_of(form: RolloutForm) -> int:
    """How many numbers a rollout has."""
    return sum(prod(kind.shape) for kind in form.kinds)


def made_rollout(form: RolloutForm) -> Made:
    """A rollout of ones."""
    return [(number, kind, torch.ones(kind.shape, dtype=_DTYPES[kind.dtype])) for number, kind in enumerate(form.kinds)]
