"""Ranks of groups of any shape: forked processes that share nothing but what their points give them."""

import os
import platform
from contextlib import contextmanager
from itertools import chain
from multiprocessing import get_context

import torch

from gmi_drl.comm import open_group, open_reduction
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.rendezvous import RendezvousPoints
from gmi_drl.layout.reductions import NONE, REDUCTIONS, legal_reductions

FORK = get_context("fork")
METHODS = {name: REDUCTIONS.find(name) for name in REDUCTIONS.names if name != NONE.name}
ANSWER_S = 120


def legal(mapping):
    """The names of the methods for a mapping of cores, on this machine."""
    return [method.name for method in legal_reductions(mapping, "cpu", platform.machine())]


def opened(name, rank, mapping, points, hang_s):
    """The reduction of one rank; ranks of tests are more than cores."""
    member = Membership(rank, mapping, hang_s=hang_s, spins=False)
    return open_reduction(METHODS[name], open_group(METHODS[name], member, points[rank]))


@contextmanager
def started(mapping, names, job, *, hang_s=60.0, slot_bytes=480_000):
    """Processes, one for each rank, in which `job(reduction)` says something for each method in turn.

    Yields a function that gives what the ranks have said of a method, and the processes.
    """
    size = sum(map(len, mapping))
    points = {name: RendezvousPoints(METHODS[name], mapping, slot_bytes) for name in names}
    pipes = {name: [FORK.Pipe(duplex=False) for _ in range(size)] for name in names}

    def live(rank):
        torch.set_num_threads(1)
        for name in names:
            reduction = opened(name, rank, mapping, points[name], hang_s)
            pipes[name][rank][1].send(job(reduction))
            reduction.group.close()
        os._exit(0)

    def answers(name, ranks=None):
        said = []
        for rank in range(size) if ranks is None else ranks:
            assert pipes[name][rank][0].poll(ANSWER_S), f"rank {rank} says nothing of {name}"
            said.append(pipes[name][rank][0].recv())
        return said

    processes = [FORK.Process(target=live, args=(rank,)) for rank in range(size)]
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
        for made in points.values():
            made.close()
        for reader, _ in chain(*pipes.values()):
            reader.close()
