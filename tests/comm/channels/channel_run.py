"""Agents and trainers of channels as processes, which act and learn, and which a test may kill.

Some agents are far: they share no memory with the trainers, and a process stands in for each.
"""

import mmap
import os
import signal
import struct
import time
from collections import Counter
from contextlib import contextmanager
from random import Random

import torch

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer
from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.errors import GmiError
from tests.comm.channels.proxy_pair import AGENT, PROXY, ProxyPair
from tests.comm.channels.traced_rollouts import parameters, pieces, rollouts_in, versions_in, write
from tests.comm.ranks import FORK

ANSWER_S = 120
HANG_S = 60.0
FAILED = 2**62
"""Instead of in how many sums a trainer was."""


class Log:
    """What one process has done, as it does it: also if it is killed. Rows of so many numbers."""

    def __init__(self, width):
        self._row, self._file = struct.Struct(f"<{width}q"), os.memfd_create("log")

    def add(self, *row):
        os.write(self._file, self._row.pack(*row))

    def rows(self):
        return list(self._row.iter_unpack(os.pread(self._file, len(self) * self._row.size, 0)))

    def __len__(self):
        return os.fstat(self._file).st_size // self._row.size

    def close(self):
        os.close(self._file)


class Run:
    """What the processes of a run inherit, and what they say at their end, by GMI.

    Attributes:
        leases: For each agent the trainer's rank of each of its rollouts.
        learnt: For each trainer what was in its batches: agents and their rollouts.
    """

    def __init__(self, sizes, hang_s, updates, stops, pause_s, far, hurries):
        gmis = sizes.agents + sizes.trainers
        self.sizes, self.hang_s, self.updates, self.stops, self.pause_s = sizes, hang_s, updates, stops, pause_s
        self.hurries = hurries
        self.mailboxes, self.memory = create_mailboxes(range(1 + max(gmis))), create_memory()
        self.met = memoryview(mmap.mmap(-1, 8 * (1 + max(gmis)))).cast("q")  # in how many sums each trainer was
        self.leases = {gmi: Log(1) for gmi in sizes.agents}
        self.learnt = {gmi: Log(2) for gmi in sizes.trainers}
        self.pipes = {gmi: FORK.Pipe(duplex=False) for gmi in gmis}
        self.processes = {gmi: FORK.Process(target=self._live, args=(gmi,)) for gmi in gmis}
        self.proxy_pairs = {gmi: ProxyPair(gmi) for gmi in far}
        self.proxies = {gmi: FORK.Process(target=self._serve_proxy, args=(gmi,)) for gmi in far}

    def _live(self, gmi):
        torch.set_num_threads(1)
        self._keep(gmi, AGENT)
        said = self.act(gmi) if gmi in self.sizes.agents else self.learn(gmi)
        self.pipes[gmi][1].send(said)
        if isinstance(said, tuple) and said[-1] is not None:
            signal.pause()  # who has failed is ended by its launcher: nobody else shall name it
        os._exit(0)

    def _keep(self, gmi, rank):
        """Close the listeners of all others: nobody shall answer for one that was killed."""
        for proxy_pair in self.proxy_pairs.values():
            proxy_pair.close(but=rank if proxy_pair.gmi == gmi else None)

    def _serve_proxy(self, gmi):
        self._keep(gmi, PROXY)
        self.proxy_pairs[gmi].serve(self.memory, self.mailboxes, self.hang_s)
        os._exit(0)

    def end_of(self, gmi):
        if gmi in self.proxy_pairs:
            return self.proxy_pairs[gmi].agent_end(self.sizes, self.hang_s)
        return join_as_agent(self.memory, self.mailboxes, gmi, self.sizes, self.hang_s)

    def act(self, gmi):
        """Rollouts until no more are needed; the error that ended it, if any."""
        chance, weights = Random(gmi), parameters()
        try:
            end = self.end_of(gmi)
            while place := end.lease():
                self.leases[gmi].add(place.trainer)
                version = end.parameters.read_into(weights)
                assert all(weight.eq(version).all() for weight in weights), "torn"
                for kind, step in pieces():
                    write(place, gmi, kind, step, version)
                    if not self.hurries and chance.random() < 0.1:
                        time.sleep(chance.random() * 0.002)
                    if self.stops == (gmi, place.rollout) and step:
                        os.kill(os.getpid(), signal.SIGSTOP)
                place.commit()
                time.sleep(self.pause_s)
            end.close()
        except GmiError as error:
            return error
        return None

    def learn(self, gmi):
        """So many updates, or until somebody is lost who is needed: the largest lag, what was dropped, the error."""
        lag, error, dropped, sums = 0, None, Counter(), self.notifier(gmi)
        try:
            end = join_as_trainer(self.memory, self.mailboxes, gmi, self.sizes, self.hang_s)
            try:
                if gmi == self.sizes.trainers[0]:
                    end.parameters.publish(0, parameters())
                for version in range(self.updates):
                    lag = max(lag, self._update(gmi, end, sums, version))
                self._sum(gmi, sums)
            finally:
                end.end_experience()
                dropped = end.dropped
        except GmiError as ended:
            error = ended
            self.met[gmi] = FAILED
            self._ring_others(gmi, sums)
        return lag, dropped, error

    def _update(self, gmi, end, sums, version):
        """Learn from a batch; the lag of its oldest rollout."""
        batch = end.take()
        for rollout in rollouts_in(batch):
            self.learnt[gmi].add(*rollout)
        lag = version - min(versions_in(batch))
        self._sum(gmi, sums)
        if gmi == self.sizes.trainers[0]:
            end.parameters.publish(version + 1, parameters(version + 1))
        end.give_back()
        return lag

    def _sum(self, gmi, notifier):
        """Meet the other trainers, as for a sum of gradients."""
        self.met[gmi] += 1
        others = self._ring_others(gmi, notifier)
        notifier.wait_for(lambda: all(self.met[one] >= self.met[gmi] for one in others), others, "met for a sum", 2)
        if FAILED in [self.met[other] for other in others]:
            raise GmiError("another trainer has failed")

    def _ring_others(self, gmi, notifier):
        others = [trainer for trainer in self.sizes.trainers if trainer != gmi]
        for other in others:
            notifier.notify(other)
        return others

    def notifier(self, gmi):
        return Notifier(self.mailboxes, MailboxMemory(self.mailboxes.memory), gmi, self.hang_s)

    def said(self, gmi):
        """What a GMI says at its end."""
        assert self.pipes[gmi][0].poll(ANSWER_S), f"GMI {gmi} says nothing"
        return self.pipes[gmi][0].recv()

    def close(self):
        for process in (*self.processes.values(), *self.proxies.values()):
            process.kill()
            process.join()
        for pipe in self.pipes.values():
            for end in pipe:
                end.close()
        for log in (*self.leases.values(), *self.learnt.values()):
            log.close()
        os.close(self.memory)
        self.mailboxes.close()


@contextmanager
def started(sizes, hang_s=HANG_S, updates=6, stops=None, pause_s=0.0, far=(), hurries=False):
    """All GMIs of some sizes as processes, and who stands in for those that are far.

    One may stop half-way; agents pause while they act, unless all hurry, and after each rollout.
    """
    run = Run(sizes, hang_s, updates, stops, pause_s, far, hurries)
    try:
        for process in (*run.processes.values(), *run.proxies.values()):
            process.start()
        for proxy_pair in run.proxy_pairs.values():
            proxy_pair.close()
        memory = MailboxMemory(run.mailboxes.memory)
        for gmi, process in {**run.processes, **run.proxies}.items():
            memory.set_pid(gmi, process.pid)  # who is killed before it is there is seen to have ended all the same
        yield run
    finally:
        run.close()
