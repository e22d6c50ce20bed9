"""The ends of workers that listen to processes of other hosts, each with bad clients and one that is right.

An end gets what `bad_frames` makes, a connection for each. It may close that, or end with an error of ours
(`GmiError`); anything else that it raises is a crash. Afterwards a right client must get its answer.
"""

import io
import os
import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, redirect_stderr, suppress

import torch
from bad_bytes import WAIT_S, bad_frames, frame, until

from gmi_drl.comm.channels import ChannelSizes, create_memory, join_as_trainer, packed_bytes
from gmi_drl.comm.channels import remote_protocol as words
from gmi_drl.comm.channels.proxy import AgentProxy
from gmi_drl.comm.channels.proxy_host import ProxyHost
from gmi_drl.comm.host_links import MESSAGE_BYTES
from gmi_drl.comm.links.framing import DATA, FAILURE, FramedConnection
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.messages.messages import Messages
from gmi_drl.comm.parameters import proxy as parameter_words
from gmi_drl.comm.parameters.host_memory import HostParameters, HostSizes
from gmi_drl.comm.parameters.proxy import NUMBER, ParameterProxy
from gmi_drl.comm.parameters.receiver import ParameterReceiver
from gmi_drl.comm.streams import StreamServer, StreamSizes, join_stream
from gmi_drl.comm.streams.far_client import far_client
from gmi_drl.comm.streams.slot_link import BEHIND, HALF, NONE, WITHIN
from gmi_drl.comm.streams.slots import LINE_WORDS
from gmi_drl.errors import GmiError
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import Kind, RolloutForm
from gmi_drl.workload.spaces import continuous, vector

TRAINER, RIGHT, FIRST_BAD = 0, 1, 2
HANG_S = 20.0
ALONE_S = 0.02
"""For which a receiver waits whose sender sends no more."""


class Seen:
    """What became of bad bytes."""

    def __init__(self) -> None:
        self.refused = Counter[str]()
        self.crashes = Counter[str]()

    def note(self, error: Exception) -> None:
        """Count an error by its words without numbers."""
        text = f"{type(error).__name__}: {re.sub(r'[0-9]+', 'N', str(error))}"[:110]
        (self.refused if isinstance(error, GmiError) else self.crashes)[text] += 1

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count what is raised within."""
        try:
            yield
        except Exception as error:
            self.note(error)


Round = Callable[[random.Random, int, Seen], None]
"""Opens an end, sends it bad bytes by so many connections, and has a right client answered.

It raises AssertionError if that waits for more than `WAIT_S`.
"""


def send_all(
    connections: Mapping[int, socket.socket], chance: random.Random, right: Callable[[int], list[bytes]]
) -> None:
    """Send something bad by each. Most are closed at once; the others are left open.

    Args:
        connections: By the client's id.
        chance: Decides.
        right: Gives the frames that a client may send.
    """
    for gmi, connection in connections.items():
        with suppress(OSError):
            connection.settimeout(WAIT_S)
            connection.sendall(bad_frames(chance, right(gmi)))
        if chance.random() < 0.9:
            connection.close()


def stream_frames(chance: random.Random, sizes: StreamSizes) -> list[bytes]:
    """What an actor on another host sends, with words that are right or nearly so."""
    numbers = sizes.offsets[len(sizes.request)]
    posted, version = chance.choice((1, 1, 1, 0, 2, -1, 2**62)), chance.choice((0, 5, -1, 2**62))
    process = chance.choice((1, 1, 1, 0, 2, -1, 2**62))
    words_of_line = [posted, chance.randrange(3), version, 1, process, chance.randrange(2)]
    line = struct.pack(f"<{LINE_WORDS}q", *words_of_line, *[0] * (LINE_WORDS - len(words_of_line)))
    member = chance.choice((0, 0, 0, 1, -1, 2**62))
    within, data = chance.randbytes(numbers), chance.randbytes(numbers)
    return [
        frame(HALF, struct.pack("<2q", member, NONE), line),
        frame(HALF, struct.pack("<2q", member, WITHIN), line, within),
        frame(HALF, struct.pack("<2q", 0, BEHIND), line) + frame(DATA, data),
    ]


def streams(chance: random.Random, count: int, seen: Seen) -> None:
    """A policy worker with actors of other hosts."""
    bad = range(FIRST_BAD, FIRST_BAD + count)
    request, answer = (Kind("obs", (2, 3)), Kind("noise", (2, 1))), (Kind("action", (2, 1)),)
    sizes = StreamSizes(request, answer, 2, (0,), ((RIGHT, *bad),), 1)
    with ExitStack() as life:
        pairs = {gmi: socket.socketpair() for gmi in (RIGHT, *bad)}
        mailboxes = life.enter_context(closing(create_mailboxes([0])))  # on this host is nobody else
        memory = create_empty("fuzz-stream")
        life.callback(os.close, memory)
        for _, other in pairs.values():
            life.callback(other.close)
        far = {gmi: FramedConnection(here, 1, MESSAGE_BYTES) for gmi, (here, _) in pairs.items()}
        stream = join_stream(memory, mailboxes, 0, sizes, HANG_S)
        server = life.enter_context(closing(StreamServer(*stream, wait_s=0.0, far=far)))
        client = far_client(FramedConnection(pairs[RIGHT][1], 1), RIGHT, sizes, HANG_S, HANG_S)
        with redirect_stderr(io.StringIO()):
            send_all({gmi: pairs[gmi][1] for gmi in bad}, chance, lambda _: stream_frames(chance, sizes))
            for number in range(3):
                client.requests[0]["obs"].fill_(number)
                client.post(0)
                answered = list[int]()
                while 0 not in answered:
                    answered = _answer(server)
                assert float(client.take(0).tensors["action"][0, 0]) == 2 * number
        for why in server._far.refused.values():
            seen.note(GmiError(why))


def _answer(server: StreamServer) -> list[int]:
    """Answer a batch by twice its requests. Returns its slots."""
    batch = list(server.next_batch())
    for slot in batch:
        server.answers[slot]["action"].copy_(2 * server.requests[slot]["obs"][:, :1])
    server.answer(server.version_wanted(batch))
    return batch


def weights() -> list[torch.Tensor]:
    """Parameters of two dtypes."""
    return [torch.ones(3, 5), torch.ones(2, dtype=torch.float64)]


def channel_sizes(agents: Sequence[int], readers: Sequence[int] = ()) -> ChannelSizes:
    """Of channels with a place for each agent at least."""
    form = RolloutForm(horizon=2, num_env=1, observation=vector(3), action=continuous(1))
    nbytes, channels = packed_bytes(weights()), Channels(max_lag=1)
    return ChannelSizes(form, len(agents), tuple(agents), (TRAINER,), channels, nbytes, readers=tuple(readers))


@contextmanager
def trainers_host(sizes: ChannelSizes) -> Iterator[ProxyHost]:
    """The host of a trainer, which has published parameters."""
    memory = create_memory()
    with closing(create_mailboxes([TRAINER, *sizes.agents, *sizes.readers])) as mailboxes:
        try:
            with closing(join_as_trainer(memory, mailboxes, TRAINER, sizes, HANG_S)) as trainer:
                trainer.parameters.publish(0, weights())
                yield ProxyHost(memory, mailboxes, HANG_S)
        finally:
            os.close(memory)


@contextmanager
def served(proxies: dict[int, AgentProxy] | dict[int, ParameterProxy], seen: Seen) -> Iterator[None]:
    """A thread for each proxy; at the end they have ended."""

    def serve(proxy: AgentProxy | ParameterProxy) -> None:
        with seen.watching(), closing(proxy):
            proxy.serve()

    threads = [threading.Thread(target=serve, args=(proxy,), daemon=True) for proxy in proxies.values()]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive(), "a proxy hangs"


def await_frame(connection: FramedConnection, kind: int) -> bytes:
    """Read until a frame of a kind has come. Returns its bytes."""
    came = list[bytes]()

    def is_there() -> bool:
        came.extend(body for what, body in connection.read() if what == kind)
        assert connection.is_open, f"the connection ended before a frame of kind {kind}"
        return bool(came)

    until(is_there, f"no frame of kind {kind} comes")
    return came[0]


def channel_proxies(chance: random.Random, count: int, seen: Seen) -> None:
    """Proxies of agents in the process on the trainers' host."""
    agents = (RIGHT, *range(FIRST_BAD, FIRST_BAD + count))
    sizes = channel_sizes(agents)
    piece = sizes.span(0, 0, 0, 1)
    places = dict[int, int]()

    def right(gmi: int) -> list[bytes]:
        head = [TRAINER, places.get(gmi, 0), 0, 0, 0, 1]
        if chance.random() < 0.5:
            head[chance.randrange(6)] = chance.choice((0, 1, 7, -1, 2**62))
        return [
            frame(words.OPEN, words.TAKES_PARAMETERS.pack(False), sizes.text.encode()),
            frame(words.LEASE),
            frame(words.PIECE, words.PIECE_HEAD.pack(*head)) + frame(DATA, chance.randbytes(piece.stop - piece.start)),
            frame(words.FORWARD, words.RECIPIENT.pack(chance.choice((TRAINER, TRAINER, RIGHT, 9**9))), b"text"),
            frame(words.BYE),
        ]

    def lease(connection: socket.socket) -> int:
        client = FramedConnection(connection, 1)
        client.send_frame(words.OPEN, words.TAKES_PARAMETERS.pack(False) + sizes.text.encode())
        await_frame(client, words.READY)
        client.send_frame(words.LEASE)
        return int(words.GRANT.unpack(await_frame(client, words.GRANTED))[1])

    with trainers_host(sizes) as host:
        pairs = {gmi: socket.socketpair() for gmi in agents}
        messages = {gmi: Messages(host.mailboxes, gmi, HANG_S, memory=host.mapped.mailboxes) for gmi in agents}
        made = {gmi: AgentProxy(checked(pairs[gmi][0]), host, gmi, messages[gmi].send) for gmi in agents}
        with served(made, seen):
            for gmi in agents[1::2]:  # these go wrong once they hold a place
                places[gmi] = lease(pairs[gmi][1])
            send_all({gmi: pairs[gmi][1] for gmi in agents[1:]}, chance, right)
            lease(pairs[RIGHT][1])
            for _, other in pairs.values():
                other.close()
        for one in messages.values():
            one.close()


def checked(connection: socket.socket) -> FramedConnection:
    """As the process of proxies has it."""
    return FramedConnection(connection, 1, MESSAGE_BYTES)


def parameter_proxies(chance: random.Random, count: int, seen: Seen) -> None:
    """Proxies of policy workers in the process on the trainers' host."""
    first = FIRST_BAD + 1
    agent, readers = FIRST_BAD, (RIGHT, *range(first, first + count))
    sizes = channel_sizes([agent], readers)

    def right() -> list[bytes]:
        version = NUMBER.pack(chance.choice((-1, 0, 5, -(2**62))))
        text = sizes.text.encode()
        return [
            frame(parameter_words.SIZES, text),
            frame(parameter_words.SIZES, text) + frame(parameter_words.NEWER, version),
            frame(parameter_words.NEWER, version),
            frame(parameter_words.NEWEST),
            frame(parameter_words.LEAVE),
        ]

    with trainers_host(sizes) as host:
        pairs = {gmi: socket.socketpair() for gmi in readers}
        made = {gmi: ParameterProxy(checked(pairs[gmi][0]), host, gmi, lambda: "task") for gmi in readers}
        with served(made, seen):
            send_all({gmi: pairs[gmi][1] for gmi in readers[1:]}, chance, lambda _: right())
            client = FramedConnection(pairs[RIGHT][1], 1)
            await_frame(client, parameter_words.INFO)
            client.send_frame(parameter_words.SIZES, sizes.text.encode())
            client.send_frame(parameter_words.NEWER, NUMBER.pack(-1))
            assert await_frame(client, parameter_words.VERSION) == NUMBER.pack(0)
            for _, other in pairs.values():
                other.close()


def parameter_receivers(chance: random.Random, count: int, seen: Seen) -> None:
    """Policy workers that receive from the trainers' host: one for each connection, and one that a right sender has."""
    sizes = channel_sizes([FIRST_BAD], [RIGHT])
    numbers = sizes.parameter_bytes

    def right() -> list[bytes]:
        version = NUMBER.pack(chance.choice((0, 1, 2**62, -5)))
        return [
            frame(parameter_words.VERSION, version) + frame(DATA, chance.randbytes(numbers)),
            frame(parameter_words.NEWEST, version),
            frame(parameter_words.TRAINERS_LIVE),
            frame(parameter_words.INFO, b"task"),
            frame(FAILURE, b"PeerDiedError\nGMI 3 ended"),
        ]

    def receive(sent: bytes, *, is_right: bool) -> None:
        here, other = socket.socketpair()
        with ExitStack() as life:
            mailboxes = life.enter_context(closing(create_mailboxes([RIGHT])))
            memory = create_empty("fuzz-parameters")
            life.callback(os.close, memory)
            life.callback(other.close)
            receiver = life.enter_context(closing(ParameterReceiver(checked(here), "the proxy", HANG_S)))
            host = HostParameters(memory, mailboxes, RIGHT, HostSizes(numbers, RIGHT, ()), HANG_S, 1)
            receiver.start(sizes, host)
            other.sendall(sent)
            if is_right:
                receiver.parameters.await_first()
                return
            other.shutdown(socket.SHUT_WR)
            until(lambda: host.lost is not None, "a receiver does not see the end of its connection")
            text = str(host.lost)
            seen.note(RuntimeError(text) if text.startswith("receiving parameters failed") else host.lost)

    for _ in range(count):
        receive(bad_frames(chance, right()), is_right=False)
    receive(frame(parameter_words.VERSION, NUMBER.pack(0)) + frame(DATA, bytes(numbers)), is_right=True)
