"""A process group of gloo in the place of one of NCCL."""

from datetime import timedelta

import torch

from gmi_drl.comm.groups.async_work import in_background


class GlooAsNccl:
    """What `ProcessGroupNCCL` is asked for by a link and a group, of gloo."""

    def __init__(self, store, rank, size):
        gloo = torch.distributed.ProcessGroupGloo
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname="127.0.0.1")]
        options._timeout = timedelta(seconds=60)
        self._connect = lambda: gloo(store, rank, size, options)
        self.is_aborted, self.groups = False, 0

    def eager_connect_single_device(self, device):
        self._group = self._connect()

    def allreduce(self, vectors):
        return self._group.allreduce(vectors)

    def _start_coalescing(self):
        self._works = []

    def send(self, vectors, to, tag):
        self._works.append(self._group.send(vectors, to, tag))

    def recv(self, vectors, source, tag):
        self._works.append(self._group.recv(vectors, source, tag))

    def _end_coalescing(self):
        self.groups += 1
        works = self._works
        return in_background(lambda: [work.wait() for work in works])

    def abort(self):
        self.is_aborted = True
        self._group = self._connect = None  # and with them the store
