"""The other ends of workers: doors at which processes greet with a token, messages of a host, the replay server.

See `fuzz_ends`.
"""

import json
import os
import random
import secrets
import socket
import struct
from contextlib import ExitStack, closing, suppress
from types import SimpleNamespace

import fuzz_replay
import torch
from bad_bytes import WAIT_S, altered, bad_frames, until
from fuzz_ends import HANG_S, RIGHT, TRAINER, Seen

from gmi_drl.comm.host_links import CLIENT, MESSAGE_BYTES, SERVER, stream_membership
from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.links.handshake import PeerListener, RankAddresses, connect_ranks, listen
from gmi_drl.comm.links.token_listener import greeting
from gmi_drl.comm.memory.mailbox import Outbox
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.messages.messages import Messages
from gmi_drl.comm.messages.trees import encode, raw
from gmi_drl.launch.nodes.accept_supervisors import SupervisorListener, introduction
from gmi_drl.roles.launcher.connection import LauncherConnection, socket_pair
from gmi_drl.roles.workers.late_clients import LateClients

ALONE_S = 0.02
"""For which a receiver waits whose sender sends no more."""


def late_actors(chance: random.Random, count: int, seen: Seen) -> None:
    """A policy worker's door for an actor that comes later: strangers, then the actor."""
    token, listeners = secrets.token_hex(16), [listen(), listen()]
    ranks = RankAddresses(tuple(one.getsockname() for one in listeners), token)
    address = ranks.addresses[SERVER]

    def hello() -> bytes:
        rank, size = chance.choice(((0, 2), (1, 3), (2, 3), (2**32 - 1, 2)))
        who = struct.pack("<IIQI", rank, size, 7, 0)
        right = [greeting(token, who), greeting(token, b""), greeting(secrets.token_hex(16), who)]
        if chance.random() < 0.3:
            sent = bad_frames(chance, right)
        else:
            sent = altered(chance, chance.choice(right), is_cut=chance.random() < 0.3)
        return sent if sent[36:44] != struct.pack("<II", CLIENT, 2) else sent[:40]  # that is the right one's

    ours, theirs = socket_pair()
    launcher = LauncherConnection(theirs.detach())
    server = stream_membership(RIGHT, TRAINER, SERVER, HANG_S)
    door = PeerListener(server, ranks, listeners[SERVER].fileno(), MESSAGE_BYTES)
    changes = LateClients({RIGHT: door}, launcher)
    with ExitStack() as life:
        for one in (ours, *listeners):
            life.callback(one.close)
        for _ in range(count):
            with suppress(ConnectionError):  # it was turned away before it had said everything
                stranger = socket.create_connection(address, timeout=WAIT_S)
                if chance.random() < 0.1:
                    life.callback(stranger.close)
                stranger.sendall(hello())
                if chance.random() < 0.9:
                    stranger.close()
        client = stream_membership(RIGHT, TRAINER, CLIENT, HANG_S)
        (right,) = connect_ranks(client, ranks, listeners[CLIENT].fileno(), MESSAGE_BYTES).values()
        came = dict[int, FramedConnection | None]()
        until(lambda: bool(came.update(changes.take()) or came), "the actor does not get in")
        assert came[RIGHT] is not None
        came[RIGHT].close()
        right.close()
        changes.close()
        os.close(launcher.fileno())


def late_nodes(chance: random.Random, count: int, seen: Seen) -> None:
    """A launcher's door for nodes that join later: strangers, then the node."""
    token, lives = secrets.token_hex(16), SimpleNamespace(why_ended=lambda: None)
    values: tuple[object, ...] = (None, 0, "", "elsewhere", [], [[]], {}, {"a": 1}, "a")

    def hello() -> bytes:
        names = ("node", "machine", "cpus", "versions")
        body = json.dumps({name: chance.choice(values) for name in names if chance.random() < 0.9} | {"node": "b"})
        wrong = {name: chance.choice(values) for name in names if chance.random() < 0.9} | {"cpus": 3}
        right = [greeting(token, json.dumps(wrong).encode()), greeting(secrets.token_hex(16), body.encode())]
        return bad_frames(chance, right) if chance.random() < 0.5 else chance.choice(right)

    with listen() as door, closing(SupervisorListener(door, token, {"a": lives})) as listener:
        for _ in range(count):
            stranger = socket.create_connection(door.getsockname(), timeout=WAIT_S)
            stranger.sendall(hello())
            if chance.random() < 0.9:
                stranger.close()
            with seen.watching():
                assert listener.poll() == [], "a stranger got in"
        with socket.create_connection(door.getsockname(), timeout=WAIT_S) as right:
            right.sendall(introduction(token, "a", "machine", [0], {}))
            arrived = list[object]()
            until(lambda: bool(arrived.extend(listener.poll()) or arrived), "the node does not get in")
            arrived[0].connection.close()  # type: ignore[attr-defined]


def messages(chance: random.Random, count: int, seen: Seen) -> None:
    """Messages of a GMI of this host: each from a sender of its own, and a right one at last."""
    tree = {"numbers": torch.zeros(3), "more": [1, ("a", None), torch.ones(2, dtype=torch.int64)]}
    header, tensors = encode(tree)
    body = b"".join(raw(tensor).numpy().tobytes() for tensor in tensors)

    def whole(head: bytes, rest: bytes) -> bytes:
        return struct.pack("=QQ", len(head), len(rest)) + head + rest

    def bad() -> bytes:
        way = chance.randrange(4)
        if way == 0:
            return bad_frames(chance, [whole(header, body)])
        if way == 1:
            return whole(altered(chance, header, is_cut=False), body)
        if way == 2:
            return whole(header, body[: chance.randrange(len(body))])
        return struct.pack("=QQ", chance.choice((0, 9, 2**22, 2**63)), chance.choice((0, 2**40, 2**64 - 1))) + header

    def receive(sent: bytes) -> object:
        with closing(create_mailboxes([TRAINER, RIGHT])) as mailboxes, ExitStack() as life:
            sender = life.enter_context(closing(Messages(mailboxes, RIGHT, ALONE_S)))
            receiver = life.enter_context(closing(Messages(mailboxes, TRAINER, ALONE_S)))
            outbox = Outbox(sender._memory, sender._notifier, TRAINER)
            outbox.send([torch.frombuffer(bytearray(sent), dtype=torch.uint8)])
            return receiver.recv(RIGHT)

    for _ in range(count):
        with seen.watching():
            receive(bad())
    assert receive(whole(header, body))["more"][0] == 1  # type: ignore[index]


def replay_server(chance: random.Random, count: int, seen: Seen) -> None:
    """A replay server; see `fuzz_replay`."""
    for reason, times in fuzz_replay.run(count, chance.randrange(2**30)).items():
        (seen.crashes if "Error" in reason else seen.refused)[reason] += times
