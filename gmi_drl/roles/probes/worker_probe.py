"""The probe of workers: what one core does of simulating, answering and learning, and a round trip of a stream."""

import os
import time

from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.streams import StreamClient, StreamServer, StreamSizes, join_stream
from gmi_drl.layout.experience import Kind
from gmi_drl.roles.main import die_with
from gmi_drl.roles.probes.ppo_probe import PPOProbe

CALLS = 200
"""Round trips that are measured, after as many that are not."""

HANG_S = 60.0

_SERVER, _CLIENT = 0, 1


class WorkerProbe(PPOProbe):
    """Measures as `PPOProbe`: its phases are a step, an answer to all environments at once, and an update.

    Attributes:
        trip_s: Seconds of a request and an empty answer, in rows of reports.
    """

    trip_s: float | None = None

    def phases(self) -> dict[str, float]:
        """See `Probe`."""
        if self.trip_s is None:
            self.trip_s = round_trip_s()
        return {**super().phases(), "trip_s": self.trip_s}


def round_trip_s() -> float:
    """Mean seconds of a request to a child of this process and its answer, on the cores of this process."""
    sizes = StreamSizes((Kind("obs", (1, 16)),), (Kind("action", (1, 16)),), 1, (_SERVER,), ((_CLIENT,),))
    mailboxes, memory, parent = create_mailboxes([_SERVER, _CLIENT]), create_empty("gmi-drl-round-trip"), os.getpid()
    try:
        if not (child := os.fork()):
            try:
                die_with(parent)
                server = StreamServer(*join_stream(memory, mailboxes, _SERVER, sizes, HANG_S), wait_s=0.0)
                while server.next_batch():
                    server.answer(0)
            finally:
                os._exit(0)
        client = StreamClient(*join_stream(memory, mailboxes, _CLIENT, sizes, HANG_S))
        try:
            for number in range(2 * CALLS):
                if number == CALLS:
                    began = time.perf_counter()
                client.post(0)
                client.take(0)
            return (time.perf_counter() - began) / CALLS
        finally:
            client.close()
            os.waitpid(child, 0)
    finally:
        mailboxes.close()
        os.close(memory)
