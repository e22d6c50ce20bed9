"""Ranks of shards that are lost at random times, in processes over TCP: each other rank must name them.

    python tests/replay/shards/random_deaths.py ROUNDS SEED HANG_S

A rank that is stopped is named after `hang_s` and 3 s, which must be within 10 s in all.
"""

import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch

from gmi_drl.comm.links.handshake import RankAddresses, listen
from gmi_drl.comm.links.sockets import SocketLink
from gmi_drl.comm.membership import Membership
from gmi_drl.errors import PeerDiedError, PeerSilentError
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.shards import Weighted, collection, open_shards

NAMED_S = 10.0
CALLS = ("allocate", "select", "collect", "save")


def rank_of(rank, size, hang_s, listeners, addresses, folder, lost, is_near):
    """One rank's life. `lost` says how, in which call, in which round and after how many exchanges it is lost.

    Ranks that are near read rows in shared memory; else rows go with the agreement.
    """
    how, where, after, exchanges = lost or ("", "", 0, 0)
    member = Membership(rank, [[other] for other in range(size)], hang_s=hang_s)
    link = SocketLink(member, addresses, listeners[rank].fileno())
    collection.AT_ONCE_BYTES = 0 if is_near else collection.AT_ONCE_BYTES
    placement = "shared" if is_near else "cpu"
    shards = open_shards(link, Signature([Field("x", (64,))]), trajectories=16, steps=4, placement=placement)
    move, left = link.move_several, exchanges

    def last(sends, receives):
        nonlocal left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL if how == "ends" else signal.SIGSTOP)
        left -= 1
        move(sends, receives)

    number = 0
    while True:
        for call in CALLS:
            if call == where and number >= after:
                link.move_several = last
            if call == "allocate":
                buffer = shards.allocate(2)
                if link.move_several is last:
                    left = 0
                    last({}, {})
                buffer.write(0, {"x": torch.zeros(2, 64)})
                buffer.commit(1)
            elif call == "select":
                indices = shards.select(8, Weighted())
            elif call == "collect":
                shards.collect(indices)
            elif number % 2 == 0:
                shards.save(Path(folder), number)
        number += 1


def one_round(dice, hang_s):
    """Returns what went wrong, and what happened."""
    size, how, where = dice.choice((2, 3)), dice.choice(("ends", "ends", "ends", "stops")), dice.choice(CALLS)
    victim = dice.randrange(size)
    lost = how, where, dice.randrange(4), dice.randrange(2)
    if where == "collect" and lost[2] == 3:  # ranks that are near exchange more often there
        lost = (*lost[:3], 2 + lost[3])
    listeners = [listen() for _ in range(size)]
    addresses = RankAddresses(tuple(listener.getsockname() for listener in listeners), "t" * 32)
    pids, says = [], []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(size):
            ours, theirs = os.pipe()
            says.append(ours)
            pids.append(os.fork())
            if not pids[-1]:
                for number, listener in enumerate(listeners):
                    if number != rank:
                        listener.close()
                try:
                    its = lost if rank == victim else None
                    rank_of(rank, size, hang_s, listeners, addresses, folder, its, is_near=lost[2] % 2 == 1)
                except (PeerDiedError, PeerSilentError) as error:
                    os.write(theirs, f"{time.monotonic()} {error}".encode())
                except BaseException:
                    os.write(theirs, f"{time.monotonic()} {traceback.format_exc()}".encode())
                os._exit(0)
            os.close(theirs)
        for listener in listeners:
            listener.close()
        _, status = os.waitpid(pids[victim], os.WUNTRACED)
        since, problems = time.monotonic(), []
        deadline = since + 2 * NAMED_S + hang_s
        ended = set() if os.WIFSTOPPED(status) else {victim}
        if os.WIFEXITED(status):  # by an error of its own, before it was to be lost
            problems.append(f"rank {victim} says: {os.read(says[victim], 65536).decode()}")
        while time.monotonic() < deadline and len(ended | {victim}) < size:
            ended |= {rank for rank in set(range(size)) - ended - {victim} if os.waitpid(pids[rank], os.WNOHANG)[0]}
            time.sleep(0.005)
        for rank in set(range(size)) - ended:
            os.kill(pids[rank], signal.SIGKILL)
            os.waitpid(pids[rank], 0)
            problems += [f"rank {rank} hangs"] if rank != victim else []
        wanted = f"rank {victim} (process {pids[victim]}) "
        wanted += "ended" if how == "ends" else "lives but has not arrived"
        for rank in set(range(size)) - {victim}:
            at, _, text = os.read(says[rank], 65536).decode().partition(" ")
            late_s = float(at) - since if at else 0.0
            if wanted not in text or late_s > NAMED_S:
                problems.append(f"rank {rank} says, after {late_s:.1f} s: {text}")
        for ours in says:
            os.close(ours)
    return problems, f"of {size}, rank {victim} {how} in round {lost[2]}, in {where}, after {lost[3]} exchanges"


def main(rounds, seed, hang_s):
    torch.set_num_threads(1)
    dice, wrong = random.Random(seed), 0
    for number in range(rounds):
        problems, what = one_round(dice, hang_s)
        wrong += bool(problems)
        if problems:
            print(f"round {number}: {what}: {'; '.join(problems)}", flush=True)
    print(f"{rounds - wrong} of {rounds} rounds: the lost rank was named on all others", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])) > 0)
