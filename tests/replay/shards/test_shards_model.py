"""Random schedules on three ranks against a plain model: what is collected was committed under its index."""

import random
import threading

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.shards import Fifo, Lifo, TopK, Uniform, Weighted, collection
from tests.replay.shards.shard_ranks import on_ranks, trajectories

RANKS, ROOM, STEPS = 3, 6, 4
WAYS = (Uniform(), Weighted(), Weighted(0.5), TopK(), Fifo(), Lifo())


class Model:
    """What lies where: by global index the tag, the length and the priority; and lists that hold some."""

    def __init__(self):
        self.there, self.held, self.lock = {}, {}, threading.Lock()

    def committed(self, index, tag, length, priority):
        with self.lock:
            assert index not in self.held, "written over while a list held it"
            self.there[index] = (tag, length, priority)

    def hold(self, indices):
        with self.lock:
            for index in indices:
                self.held[index] = self.held.get(index, 0) + 1

    def release(self, indices):
        with self.lock:
            for index in indices:
                self.held[index] -= 1
                if not self.held[index]:
                    del self.held[index]


def write(shards, model, own, tags):
    """Commit or abandon some trajectories of one rank."""
    room = ROOM - len({index for index in model.held if index // ROOM == shards.rank})
    count = own.randint(1, 2)
    if room < count:
        return
    buffer = shards.allocate(count, timeout_s=1.0)
    new = [next(tags) for _ in range(count)]
    lengths, priorities = [own.randint(1, STEPS) for _ in new], [float(own.randint(0, 3)) for _ in new]
    for number in range(count):
        for name, value in trajectories(new).items():
            buffer.views[name][number][:] = value[number]
    if own.random() < 0.2:
        with model.lock:
            for place in buffer.indices:
                model.there.pop(place + ROOM * shards.rank, None)
        buffer.abandon()
        return
    with model.lock:  # what was evicted for it
        for place in buffer.indices:
            model.there.pop(place + ROOM * shards.rank, None)
    buffer.commit(torch.tensor(lengths), torch.tensor(priorities))
    for place, tag, length, priority in zip(buffer.indices, new, lengths, priorities, strict=True):
        model.committed(place + ROOM * shards.rank, tag, length, priority)


def check(fields, lengths, expected):
    for number, (tag, length, _) in enumerate(expected):
        assert lengths[number] == length
        assert fields["tag"][number].tolist() == [tag * 100 + step if step < length else 0 for step in range(STEPS)]
        assert torch.equal(fields["value"][number, :, 0], fields["tag"][number].float())


@pytest.mark.parametrize(("seed", "placement"), [(0, "cpu"), (1, "cpu"), (2, "cpu"), (3, "shared")])
def test_random_schedules(seed, placement, monkeypatch):
    monkeypatch.setattr(collection, "AT_ONCE_BYTES", collection.AT_ONCE_BYTES * (seed < 2))
    model = Model()

    def job(shards):
        own, common = random.Random(f"{seed}/{shards.rank}"), random.Random(seed)  # what all do, they do alike
        tags = iter(range(1000 * shards.rank, 1000 * shards.rank + 1000))
        open_lists = []
        for _ in range(30):
            for _ in range(own.randint(0, 3)):
                write(shards, model, own, tags)
            shards.barrier()
            act = common.choice(["select", "select", "collect", "collect", "drop", "update", "evict"])
            if act == "select" and len(open_lists) < 2 and model.there:
                way, count = common.choice(WAYS), common.randint(1, 4)
                flags = {"distinct": common.random() < 0.3}
                if isinstance(way, Uniform | Weighted):
                    flags |= {"by_steps": common.random() < 0.3, "central": common.random() < 0.3 > flags["distinct"]}
                there = dict(model.there)
                try:
                    indices = shards.select(count, way, **flags)
                except UsageError as error:
                    assert "can be selected" in str(error)
                    shards.barrier()
                    continue
                listed = indices.tolist()
                assert set(listed) <= set(there)
                if isinstance(way, TopK):
                    best = sorted((priority for _, _, priority in there.values()), reverse=True)
                    assert [there[index][2] for index in listed] == best[:count]
                if isinstance(way, Weighted) and any(priority for _, _, priority in there.values()):
                    assert all(there[index][2] for index in listed)
                open_lists.append((indices, [there[index] for index in listed]))
                shards.barrier()
                if shards.rank == 0:
                    model.hold(listed)
            elif act == "collect" and open_lists:
                indices, expected = open_lists.pop(0)
                check(*shards.collect(indices), expected)
                shards.barrier()
                if shards.rank == 0:
                    model.release(indices.tolist())
            elif act == "drop" and open_lists:
                indices, _ = open_lists.pop()
                shards.drop(indices)
                shards.barrier()
                if shards.rank == 0:
                    model.release(indices.tolist())
            elif act in ("update", "evict") and model.there:
                wanted = sorted(model.held.keys() & model.there) if common.random() < 0.7 else []
                index = common.choice(wanted or sorted(model.there))
                tag, length, _ = model.there[index]
                shards.barrier()
                shards.sync()
                if shards.rank == common.randrange(RANKS):
                    if act == "update":
                        shards.update(torch.tensor([index]), 2.5)
                    else:
                        shards.evict(torch.tensor([index]))
                shards.sync()
                if act == "update" and index // ROOM == shards.rank:
                    assert 2.5 in shards.shard.chances.priorities
                if shards.rank == 0:
                    with model.lock:
                        del model.there[index]
                        if act == "update":
                            model.there[index] = (tag, length, 2.5)
            shards.barrier()
        for indices, expected in open_lists:
            check(*shards.collect(indices), expected)
        return True

    settings = {"trajectories": ROOM, "steps": STEPS, "seed": seed, "placement": placement}
    assert on_ranks(RANKS, job, **settings) == [True] * RANKS


@pytest.mark.parametrize(("seed", "placement"), [(0, "cpu"), (1, "cpu"), (2, "shared")])
def test_trajectories_are_whole_while_actors_write_beside(seed, placement, monkeypatch):
    """Writers in threads of their own; a list may name anything that is there, but each trajectory is of one piece."""
    monkeypatch.setattr(collection, "AT_ONCE_BYTES", collection.AT_ONCE_BYTES * (placement == "cpu"))

    def job(shards):
        stop = threading.Event()

        def act():
            tag = 1000 * shards.rank
            while not stop.is_set():
                tag += 1
                shards.insert(trajectories([tag]), priorities=1.0 + tag % 3)

        writer = threading.Thread(target=act)
        writer.start()
        try:
            common = random.Random(seed)
            for _ in range(20):
                indices = shards.select(3, common.choice(WAYS[:3]))
                fields, _ = shards.collect(indices)
                tags = fields["tag"][:, 0] // 100
                assert torch.equal(fields["tag"], tags[:, None] * 100 + torch.arange(STEPS))
                assert torch.equal(tags // 1000, indices // ROOM)
        finally:
            stop.set()
            writer.join()
        return True

    more = {"seed": seed, "placement": placement, "sync_every": 1 + 2 * (seed % 2)}
    assert on_ranks(2, job, trajectories=ROOM, steps=STEPS, **more) == [True] * 2


@pytest.mark.parametrize("placement", ["cpu", "shared"])
def test_any_indices_are_read_whole_while_actors_write_beside(placement, monkeypatch):
    monkeypatch.setattr(collection, "IN_PLACE_BYTES", 0)
    monkeypatch.setattr(collection, "AT_ONCE_BYTES", 0)

    def job(shards):
        stop, whole = threading.Event(), 0
        shards.insert(trajectories(range(ROOM)))

        def act():
            while not stop.is_set():
                shards.insert(trajectories([own.randint(0, 900)]))

        own = random.Random(shards.rank)
        writer = threading.Thread(target=act)
        writer.start()
        try:
            for number in range(40):
                try:
                    fields, _ = shards.collect(torch.tensor([number % ROOM, ROOM + number % ROOM]))
                except UsageError as error:
                    assert "there is no trajectory" in str(error)
                    continue
                tags = fields["tag"][:, :1] // 100
                assert torch.equal(fields["tag"], tags * 100 + torch.arange(STEPS))
                whole += 1
        finally:
            stop.set()
            writer.join()
        return whole

    first, second = on_ranks(2, job, trajectories=ROOM, steps=STEPS, placement=placement)
    assert first == second > 0
