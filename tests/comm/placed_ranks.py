"""Ranks of placed groups: forked processes that share nothing but the rows of their device."""

import os
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from multiprocessing import get_context

import torch

from gmi_drl.comm.har import HierarchicalReduction
from gmi_drl.comm.meeting import Meeting, listen
from gmi_drl.comm.mrr import MultiRingReduction
from gmi_drl.comm.placed import Place, PlacedGroup
from gmi_drl.comm.shard import ShardedReduction
from gmi_drl.mapping import mrr_obstacle
from gmi_drl.memory.segment import create_segment

FORK = get_context("fork")
METHODS = {"MRR": MultiRingReduction, "HAR": HierarchicalReduction, "SHARD": ShardedReduction}
ANSWER_S = 120


def legal(mapping):
    """The names of the methods for a mapping."""
    return [name for name in METHODS if name != "MRR" or mrr_obstacle(mapping) is None]


@dataclass
class Spot:
    """Where one group meets, as a launcher makes it."""

    mapping: list
    slot_bytes: int

    def __post_init__(self):
        self.listeners = [listen() for _ in chain(*self.mapping)]
        addresses = tuple(listener.getsockname() for listener in self.listeners)
        self.meeting = Meeting(addresses, secrets.token_hex(16))
        self.segments = [create_segment(len(ranks), self.slot_bytes) for ranks in self.mapping]

    def opened(self, name, rank, hang_s):
        device = next(number for number, ranks in enumerate(self.mapping) if rank in ranks)
        place = Place(self.mapping, self.meeting, self.listeners[rank].fileno(), self.segments[device])
        return METHODS[name](PlacedGroup(rank, len(self.listeners), place, hang_s))

    def close(self):
        for listener in self.listeners:
            listener.close()
        for segment in self.segments:
            os.close(segment)


@contextmanager
def started(mapping, names, job, *, hang_s=60.0, slot_bytes=480_000):
    """Processes, one for each rank, in which `job(reduction)` says something for each method in turn.

    Yields a function that gives what the ranks have said of a method, and the processes.
    """
    spots = {name: Spot(mapping, slot_bytes) for name in names}
    pipes = {name: [FORK.Pipe(duplex=False) for _ in spot.listeners] for name, spot in spots.items()}

    def live(rank):
        torch.set_num_threads(1)
        for name, spot in spots.items():
            reduction = spot.opened(name, rank, hang_s)
            pipes[name][rank][1].send(job(reduction))
            reduction.group.close()
        os._exit(0)

    def answers(name, ranks=None):
        said = []
        for rank in range(len(processes)) if ranks is None else ranks:
            assert pipes[name][rank][0].poll(ANSWER_S), f"rank {rank} says nothing of {name}"
            said.append(pipes[name][rank][0].recv())
        return said

    processes = [FORK.Process(target=live, args=(rank,)) for rank in range(sum(map(len, mapping)))]
    for process in processes:
        process.start()
    for _, writer in chain(*pipes.values()):
        writer.close()  # so that a rank that ends without a word is noticed at once
    try:
        yield answers, processes
    finally:
        for process in processes:
            process.kill()
            process.join()
        for spot in spots.values():
            spot.close()
        for reader, _ in chain(*pipes.values()):
            reader.close()
