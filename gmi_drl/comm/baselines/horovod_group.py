"""A group that sums by Horovod (Sergeev and Del Balso 2018), started in processes that already run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import horovod.torch as hvd
import torch
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer
from torch import Tensor

from gmi_drl.comm.groups.async_work import AsyncWork, in_background
from gmi_drl.comm.groups.gloo import NEVER, GlooGroup
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import BARRIER, REDUCE, call_code
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import UsageError

_LOOPBACK, _INTERFACE = "127.0.0.1", "lo"


class HorovodGroup(GlooGroup):
    """A `GlooGroup` that sums by Horovod's `allreduce`, with its defaults and a gloo of its own.

    Horovod knows one group in a process. Groups of the same ranks share it; other groups are refused.

    Horovod's thread goes on waiting for a silent peer: a process that has lost one can only end at once (`os._exit`),
    as a GMI does.

    Args:
        member: This process.
        rendezvous: With a store.

    Raises:
        UsageError: If some of these processes are in Horovod's group with others.
        MachineError, PeerDiedError, PeerSilentError: See `GlooGroup`.
    """

    def __init__(self, member: Membership, rendezvous: Rendezvous) -> None:
        super().__init__(member, rendezvous)
        self._horovod: _Horovod | None = None
        try:
            self._horovod = self._join()
        except BaseException:
            self.close()
            raise

    def sum(self, vector: Tensor) -> None:
        """Sum a float32 vector `[n]` on the CPU in place over the group."""
        self._finish(call_code(REDUCE, vector.numel()), lambda: self._start(vector))

    def close(self) -> None:
        """Leave the group, and shut Horovod down if no other group uses it; see `GlooGroup`."""
        if self._horovod:
            self._horovod.leave()
            self._horovod = None
        super().close()

    def _join(self) -> "_Horovod":
        """The Horovod of this process, started if there is none. All ranks come to the same result."""
        own = _Horovod.running
        root_pid, rank = (own.root_pid, hvd.rank()) if own else (0, -1)
        founders, ranks = self.gather(torch.tensor([root_pid, rank], dtype=torch.float64)).T.long().tolist()
        if not any(founders):
            own = self._found()
        elif not own or len(set(founders)) > 1 or ranks != list(range(hvd.size())):
            raise UsageError(
                "Horovod knows one group in a process, and this would be another one: let one group of a GMI reduce by "
                "horovod, or all of the same GMIs in the same order"
            )
        own.users += 1
        return own

    def _found(self) -> "_Horovod":
        """Start Horovod, as its own launcher would."""
        with _rendezvous(self.rank) as port:
            told = self.gather(torch.tensor([port, os.getpid()], dtype=torch.float64))[0].long().tolist()
            os.environ.update(_environment(self.rank, self.size, told[0]))
            self._finish(BARRIER, lambda: in_background(hvd.init))
            self.barrier()  # until here all ranks may use the server
        _Horovod.running = _Horovod(told[1])
        return _Horovod.running

    def _start(self, vector: Tensor) -> AsyncWork:
        # Horovod caches by name what the ranks have agreed on.
        handle = hvd.allreduce_async_(vector, name=f"sum of {vector.numel()}", op=hvd.Sum)
        return AsyncWork(lambda: hvd.poll(handle), lambda: self._end(handle))

    def _end(self, handle: int) -> None:
        try:
            hvd.synchronize(handle)
        except hvd.HorovodInternalError as error:
            self._peers.raise_lost(str(error))

    def _give_up(self) -> None:
        """See `GlooGroup`. Horovod keeps running: shutting it down would wait for the peer."""
        super()._give_up()
        self._horovod = None


class _Horovod:
    """The one Horovod that runs in this process.

    Args:
        root_pid: The process id of its rank 0, by which ranks recognise that they share it.
    """

    running: "_Horovod | None" = None

    def __init__(self, root_pid: int) -> None:
        self.root_pid, self.users = root_pid, 0

    def leave(self) -> None:
        """Shut it down with its last user; it ends on all ranks."""
        self.users -= 1
        if not self.users:
            hvd.shutdown()
            _Horovod.running = None


@contextmanager
def _rendezvous(rank: int) -> Iterator[int]:
    """Run Horovod's rendezvous server on rank 0 for the time of a `with` block; yields its port.

    It is Horovod's own and knows no token: it listens on loopback, with a thread for each connection, so silent
    strangers delay nobody.
    """
    if rank != 0:
        yield 0
        return
    with RendezvousHTTPServer((_LOOPBACK, 0), RendezvousHandler, 0) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def _environment(rank: int, size: int, port: int) -> dict[str, str]:
    """The environment variables that `horovod.runner.gloo_run` sets for the processes of one host."""
    return {
        "HOROVOD_HOSTNAME": "localhost",
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_RANK": str(rank),
        "HOROVOD_LOCAL_SIZE": str(size),
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": _INTERFACE,
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": _LOOPBACK,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(int(NEVER.total_seconds())),  # this package checks the peers
    }
