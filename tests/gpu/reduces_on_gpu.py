"""One rank of two on one GPU: `reduces_on_gpu.py RANK METHOD RENDEZVOUS`, which writes JSON lines to stdout."""

import hashlib
import json
import sys
import time

import torch

from gmi_drl.comm import open_group, open_reduction
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import GmiError, MachineError
from gmi_drl.layout.reductions import REDUCTIONS

DEVICE = torch.device("cuda:0")
SIZE = 2
NUMELS = (0, 1, 7, 100_003, 700_001)  # the slot has room for 262,144, the staging area for 131,072
BUCKET = 200_003
ROUNDS = 50


def say(answer):
    print(json.dumps(answer), flush=True)


def numbers(rank, numel):
    return torch.randn(numel, generator=torch.Generator().manual_seed(rank))


def is_right(vector):
    exact = sum(numbers(rank, len(vector)).double() for rank in range(SIZE))
    return bool(((vector.cpu() - exact).abs() < 1e-5).all())


def sums(reduction, vectors):
    """Whether they are right, and a digest of their bits."""
    digest, right = hashlib.sha256(), []
    for vector in vectors:
        vector.copy_(numbers(reduction.group.rank, len(vector)))
        reduction.reduce(vector)
        right.append(is_right(vector))
        digest.update(vector.cpu().numpy().tobytes())
    return right, digest.hexdigest()


def rounds(reduction, bucket):
    """How many sums are wrong where the device is still busy with the bucket when the host comes."""
    rank, wrong = reduction.group.rank, torch.zeros((), device=DEVICE)
    for number in range(ROUNDS):
        for _ in range(100 * (number % 2 == rank)):
            bucket.fill_(-1.0)
        bucket.fill_(number * (rank + 1))
        reduction.reduce(bucket)
        wrong += (bucket != number * SIZE * (SIZE + 1) / 2).any()
    return wrong.item()


def until_lost(reduction, bucket):
    try:
        while True:
            reduction.reduce(bucket.fill_(1.0))
    except GmiError as error:
        return {"error": type(error).__name__, "message": str(error), "at": time.monotonic()}


def main():
    rank, method = int(sys.argv[1]), REDUCTIONS.find(sys.argv[2])
    try:
        group = open_group(
            method, Membership(rank, [[*range(SIZE)]], hang_s=60), Rendezvous.from_order(json.loads(sys.argv[3]))
        )
        reduction = open_reduction(method, group, DEVICE)
    except MachineError as error:
        say({"cannot": str(error)})
        return
    on_gpu = [torch.empty(numel, device=DEVICE) for numel in NUMELS]
    before = sums(reduction, on_gpu)  # where no bucket lies in a slot yet
    bucket = reduction.bucket(BUCKET)
    zeroed = not bucket.any().item()
    after = sums(reduction, [bucket, *on_gpu, *map(torch.empty, NUMELS), bucket])
    say({"sums": (before, after), "zeroed": zeroed, "wrong": rounds(reduction, bucket)})
    say(until_lost(reduction, bucket))
    reduction.group.close()
    say({"readable": bucket.numel() == len(bucket.cpu())})


main()
