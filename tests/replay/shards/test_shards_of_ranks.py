"""Shards of several ranks: stored, selected and collected."""

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.shards import Fifo, Lifo, TopK, Uniform, Weighted, collection
from tests.replay.shards.shard_ranks import on_ranks, trajectories


def test_the_example_of_the_paper():
    signature = Signature([Field(f"col{number}", (3,), column=f"col{number}") for number in range(3)])

    def job(shards):
        base = 24 * shards.rank
        rows = torch.arange(base, base + 24).float()[:, None, None].expand(24, 2, 3)
        shards.insert({f"col{number}": rows + 1000 * number for number in range(3)})
        return shards.collect(torch.tensor([2, 4, 25, 26]), ["col0", "col1"])

    for fields, lengths in on_ranks(2, job, signature=signature, trajectories=24, steps=2):
        assert lengths.tolist() == [2] * 4
        assert sorted(fields) == ["col0", "col1"]
        assert fields["col0"][:, 1, 2].tolist() == [2, 4, 25, 26]
        assert fields["col1"][:, 0, 0].tolist() == [1002, 1004, 1025, 1026]


def test_all_ranks_get_one_list_and_what_lies_there():
    def job(shards):
        shards.insert(trajectories(range(10 * shards.rank, 10 * shards.rank + 8)), priorities=torch.arange(8.0))
        gotten = []
        for way in (Uniform(), Weighted(0.5), TopK(), Fifo(), Lifo()):
            indices = shards.select(6, way)
            fields, lengths = shards.collect(indices)
            assert fields["tag"][:, 0].tolist() == [(index // 8 * 10 + index % 8) * 100 for index in indices.tolist()]
            assert torch.equal(fields["value"][..., 1], -fields["tag"].float())
            assert lengths.tolist() == [4] * 6
            gotten.append(indices.tolist())
        return gotten

    first, *others = on_ranks(3, job)
    assert others == [first, first]
    assert first[2] == [7, 15, 23, 6, 14, 22]
    assert first[3] == [0, 8, 16, 1, 9, 17]
    assert first[4] == [7, 15, 23, 6, 14, 22]


def test_a_rank_without_trajectories_is_never_drawn():
    def job(shards):
        if shards.rank != 1:
            shards.insert(trajectories([shards.rank, shards.rank]), priorities=1.0 + shards.rank)
        return [shards.select(50, way) // 8 for way in (Uniform(), Weighted(), Weighted(0.0))]

    for lists in on_ranks(3, job):
        assert {rank for owners in lists for rank in owners.tolist()} == {0, 2}


def test_weights_of_zero_are_uniform_when_all_are():
    def job(shards):
        shards.insert(trajectories([1, 2]), priorities=0.0)
        drawn = shards.select(200, Weighted())
        some = shards.select(4, Weighted(), distinct=True)
        shards.update(torch.tensor([9]), 3.0)
        return set(drawn.tolist()), set(some.tolist()), set(shards.select(50, Weighted()).tolist())

    assert on_ranks(2, job) == [({0, 1, 8, 9}, {0, 1, 8, 9}, {9})] * 2


def test_updates_reach_their_owners_with_the_next_call():
    def job(shards):
        shards.insert(trajectories(range(4)), priorities=1.0)
        shards.select(1)
        if shards.rank == 0:
            shards.update(torch.tensor([10, 1]), torch.tensor([9.0, 5.0]))
        return shards.select(2, TopK()).tolist()

    assert on_ranks(2, job) == [[10, 1]] * 2


def test_what_this_rank_has_just_inserted_can_be_updated_or_evicted():
    def job(shards):
        indices = shards.insert(trajectories(range(3)), priorities=1.0)
        shards.update(indices[:1], 4.0)
        shards.evict(indices[1:2])
        return shards.select(4, TopK()).tolist()

    assert on_ranks(2, job) == [[0, 8, 2, 10]] * 2


def test_an_update_does_not_hit_what_came_in_the_place_of_its_trajectory():
    def job(shards):
        shards.insert(trajectories([1]), priorities=1.0)
        indices = shards.select(1)
        shards.collect(indices)
        shards.insert(trajectories([2]), priorities=1.0)
        shards.update(indices, 7.0)
        return shards.select(1, Weighted()).tolist(), shards.shard.chances.priorities.max().item(), shards.ignored

    assert on_ranks(1, job, trajectories=1) == [([0], 1.0, 1)]


@pytest.mark.parametrize("way", [Uniform(), Weighted()], ids=str)
def test_central_lists_do_not_depend_on_the_number_of_ranks(way):
    def job(shards):
        part = 8 // shards.size
        tags = range(shards.rank * part, (shards.rank + 1) * part)
        shards.insert(trajectories(tags), priorities=torch.tensor([float(tag % 3) for tag in tags]))
        return [shards.select(32, way, central=True).tolist() for _ in range(3)]

    (alone,) = on_ranks(1, job, trajectories=8)
    assert on_ranks(2, job, trajectories=4) == [alone, alone]


def test_what_is_selected_stays_until_it_is_collected():
    def job(shards):
        shards.insert(trajectories([1, 2]))
        indices = shards.select(2, Fifo(), distinct=True)
        with pytest.raises(ReplayTimeoutError, match="2 of all wait to be collected"):
            shards.allocate(1, timeout_s=0.05)
        tags = shards.collect(indices)[0]["tag"][:, 0].tolist()
        shards.insert(trajectories([3, 4]))
        again = shards.select(2, Fifo())
        shards.drop(again)
        shards.allocate(2, timeout_s=0.0).abandon()
        return tags

    assert on_ranks(1, job, trajectories=2) == [[100, 200]]


def test_the_remover_decides_what_goes():
    def job(shards):
        shards.insert(trajectories([1, 2, 3]))
        held = shards.select(1, Fifo())
        shards.insert(trajectories([4]))
        return shards.collect(held)[0]["tag"][0, 0].item(), sorted(
            shards.collect(torch.arange(3))[0]["tag"][:, 0].tolist()
        )

    assert on_ranks(1, job, trajectories=3) == [(100, [100, 300, 400])]


def test_an_evicted_trajectory_is_kept_by_its_list_alone():
    def job(shards):
        shards.insert(trajectories([1, 2]))
        held = shards.select(2, Fifo())
        shards.evict(held[:1])
        shards.sync()
        assert set(shards.select(20).tolist()) == {1}
        tags = shards.collect(held)[0]["tag"][:, 0].tolist()
        with pytest.raises(UsageError, match="no trajectory 0, at place 0: rank 0 has 1 of 2"):
            shards.collect(held)
        return tags

    assert on_ranks(1, job, trajectories=2) == [[100, 200]]


def test_heads_collect_and_others_serve():
    def job(shards):
        shards.insert(trajectories([shards.rank]))
        fields, lengths = shards.collect(torch.tensor([2, 1, 0]))
        return fields["tag"][:, 0].tolist(), len(lengths), shards.bytes["trajectories"]

    middle, head, last = on_ranks(3, job, trajectories=1, heads=[1])
    assert head == ([200, 100, 0], 3, 0)
    assert middle == last == ([], 0, 8 * (2 + 4 * 2))  # a length, filled up to two words, then two columns


def test_heads_may_share_a_list():
    def job(shards):
        shards.insert(trajectories([2 * shards.rank, 2 * shards.rank + 1]))
        return shards.collect(torch.tensor([3, 0, 1, 2]), split=True)[0]["tag"][:, 0].tolist()

    assert on_ranks(2, job, trajectories=2) == [[300, 0], [100, 200]]


def test_windows():
    def job(shards):
        shards.insert(trajectories([shards.rank, 5], steps=4), lengths=torch.tensor([4, 3]))
        window = torch.tensor([1, 2, 2, 3]), 2
        fields, lengths = shards.collect(torch.tensor([0, 1, 3, 2]), ["b"], window=window)
        return fields["tag"].tolist(), lengths.tolist(), shards.bytes["trajectories"]

    first, second = on_ranks(2, job, trajectories=2)
    assert first == second
    assert first == ([[1, 2], [502, 0], [502, 0], [103, 0]], [2, 1, 1, 1], 8 * (2 + 2 * 2))


@pytest.mark.parametrize(("at_once", "exchanges"), [(2**20, 1), (0, 2)])
def test_few_rows_go_with_the_agreement(at_once, exchanges, monkeypatch):
    monkeypatch.setattr(collection, "AT_ONCE_BYTES", at_once)

    def job(shards):
        shards.insert(trajectories([1 + shards.rank, 3]))
        move, sent = shards._link.move_several, []
        shards._link.move_several = lambda sends, into: (sent.append(bool(sends)), move(sends, into))
        indices, starts = torch.tensor([8, 0, 1]), torch.tensor([0.0, 0.4, 0.9]).double()
        fields, lengths = shards.collect(indices, ["b"], window=(starts, 2))
        return fields["tag"].tolist(), lengths.tolist(), sum(sent), shards.bytes["trajectories"]

    first, second = on_ranks(2, job)
    assert first == ([[200, 201], [101, 102], [302, 303]], [2, 2, 2], exchanges, 8 * (2 + 2 * 2))
    assert second == (*first[:3], 8 * (2 + 2))


def test_rows_that_go_with_an_agreement_are_sent_once_also_if_updates_follow():
    def job(shards):
        shards.insert(trajectories([1 + shards.rank, 3]))
        shards.evict(torch.tensor([8 * (1 - shards.rank)]))
        tags = shards.collect(torch.tensor([0, 8]), ["b"])[0]["tag"][:, 0].tolist()  # which holds them
        with pytest.raises(UsageError, match="no trajectory 0"):
            shards.collect(torch.tensor([0, 8]))
        return tags, shards.bytes["trajectories"]

    assert on_ranks(2, job) == [([100, 200], 8 * (2 + 4))] * 2


def test_steps_past_the_end_are_zeros_also_where_others_lay():
    def job(shards):
        shards.insert(trajectories([1]))
        shards.insert(trajectories([2], steps=2))
        return shards.collect(torch.tensor([0]))

    ((fields, lengths),) = on_ranks(1, job, trajectories=1)
    assert fields["tag"].tolist() == [[200, 201, 0, 0]]
    assert lengths.tolist() == [2]


def test_buffers_are_written_in_place_and_never_selected_before():
    def job(shards):
        shards.insert(trajectories([9]))
        buffer = shards.allocate(2)
        buffer.write(0, {"tag": torch.tensor([5, 6]), "value": torch.ones(2, 2)})
        buffer.views["tag"][1][1] = 7
        assert set(shards.select(30).tolist()) == {0}
        buffer.commit(torch.tensor([1, 2]))
        with pytest.raises(UsageError, match="was committed or abandoned"):
            buffer.commit(1)
        return shards.collect(shards.select(3, Fifo()), ["b"])[0]["tag"].tolist()

    assert on_ranks(1, job) == [[[900, 901, 902, 903], [5, 0, 0, 0], [6, 7, 0, 0]]]


def test_out_is_written_over():
    def job(shards):
        shards.insert(trajectories([1, 2]))
        first, _ = shards.collect(torch.tensor([0, 1]))
        address = first["tag"].data_ptr()
        again, _ = shards.collect(torch.tensor([1, 0]), out=first)
        other, _ = shards.collect(torch.tensor([1]), out=first)
        return again["tag"].data_ptr() == address, first["tag"][0, 0].item(), other["tag"].data_ptr() == address

    assert on_ranks(1, job) == [(True, 200, False)]


def test_what_other_shards_gave_is_not_written_over_where_its_rows_are_wider():
    wide = Signature([Field("value", (8,), torch.float32, "a"), Field("tag", (), torch.int64, "b")])
    ((theirs, _),) = on_ranks(1, lambda shards: collect_one(shards, torch.ones(1, 4, 8)), signature=wide)

    def job(shards):
        shards.insert(trajectories([1]))
        fields, _ = shards.collect(torch.tensor([0]), out=theirs)
        return fields["value"].shape[-1], fields["tag"][0].tolist()

    assert on_ranks(1, job) == [(2, [100, 101, 102, 103])]


def collect_one(shards, value):
    shards.insert({"value": value, "tag": torch.zeros(1, 4, dtype=torch.int64)})
    return shards.collect(torch.tensor([0]))


def test_what_was_told_last_holds_for_some_selections():
    def job(shards):
        shards.insert(trajectories([1, 2]), priorities=torch.tensor([1.0, 2.0]))
        lists = [shards.select(2, TopK()).tolist()]
        shards.insert(trajectories([3]), priorities=5.0)
        shards.barrier()
        lists += [shards.select(2, TopK()).tolist() for _ in range(2)]
        stale = shards.stale
        shards.evict(torch.tensor([2 + 8 * shards.rank]))
        lists.append(shards.select(2, TopK()).tolist())
        return lists, stale, shards.stale

    first, second = on_ranks(2, job, sync_every=2)
    assert first == second
    assert first == ([[1, 9], [1, 9], [2, 10], [1, 9]], 0, 2)


def test_a_first_trajectory_is_waited_for():
    def job(shards):
        with pytest.raises(ReplayTimeoutError, match="no shard has a trajectory"):
            shards.select(1, timeout_s=0.1)
        if shards.rank == 1:
            shards.insert(trajectories([1]))
        return shards.select(1).tolist()

    assert on_ranks(2, job) == [[8], [8]]


def test_epochs_count_what_was_drawn():
    def job(shards):
        shards.insert(trajectories([1, 2]))
        for _ in range(3):
            shards.select(2)
        return shards.epoch()

    assert on_ranks(2, job) == [1.5, 1.5]


HEADER = 8 * 8  # bytes of the agreement with one other rank


@pytest.mark.parametrize(
    ("way", "central", "sent"),
    [
        (Uniform(), False, {"agreement": HEADER, "list": 8 * (2 + 10)}),
        (Weighted(), False, {"agreement": HEADER, "list": 8 * (2 + 10)}),
        (TopK(), False, {"agreement": HEADER, "scores": 8 * (8 + 4), "list": 8 * (2 + 10)}),
        (Fifo(), False, {"agreement": HEADER, "scores": 8 * (8 + 4), "list": 8 * (2 + 10)}),
        (Weighted(), True, {"agreement": HEADER, "central": 2 * 8 * 4, "list": 8 * 10}),
    ],
    ids=str,
)
def test_bytes_are_those_of_totals_lists_scores_or_all_trajectories(way, central, sent):
    def job(shards):
        shards.insert(trajectories(range(4 if shards.rank else 8)), priorities=1.0)
        before = shards.bytes
        shards.select(10, way, central=central)
        return {kind: count - before.get(kind, 0) for kind, count in shards.bytes.items()}

    first, second = on_ranks(2, job)
    both = {kind: first.get(kind, 0) + second.get(kind, 0) for kind in first | second}
    assert both == sent | {"agreement": 2 * HEADER}
