"""What shards refuse: on all ranks, in the same words, before anything is written."""

import pytest
import torch

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.selectors import Prioritized
from gmi_drl.replay.shards import AloneLink, Fifo, TopK, Uniform, Weighted, open_shards
from tests.replay.shards.shard_ranks import SIGNATURE, on_ranks, trajectories


def refused_by_all(call, size=2, **options):
    """What `call(shards)` is refused with, the same on all ranks; they go on afterwards."""

    def job(shards):
        shards.insert(trajectories([1, 2]))
        before = dict(shards.bytes)
        with pytest.raises(UsageError) as caught:
            call(shards)
        moved = {kind for kind in shards.bytes if shards.bytes[kind] != before.get(kind)}
        assert moved <= {"agreement", "trajectories"}  # few rows go with the agreement
        assert len(shards.select(3)) == 3
        return str(caught.value)

    (said,) = set(on_ranks(size, job, **options))
    return said


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda shards: shards.select(2 + shards.rank), "rank 0 selects 2 by Uniform(), rank 1 selects 3 by Uniform()"),
        (
            lambda shards: shards.select(2, [Uniform(), Weighted(0.5)][shards.rank]),
            "rank 0 selects 2 by Uniform(), rank 1 selects 2 by Weighted(exponent=0.5)",
        ),
        (lambda shards: shards.select(2, distinct=shards.rank == 1), "rank 1 selects 2 by Uniform(), distinct"),
        (
            lambda shards: shards.select(2, TopK() if shards.rank else Uniform(), by_steps=True),
            "rank 1 selects 2 by TopK(), by steps",
        ),
        (lambda shards: shards.select(2, central=shards.rank == 1), "rank 1 selects 2 by Uniform(), central"),
        (
            lambda shards: shards.collect(torch.tensor([0]), "ab"[shards.rank]),
            "of columns a, rank 1 collects 1 trajectories (0; checksum 6522df69) of columns b",
        ),
        (lambda shards: shards.collect(torch.tensor([shards.rank])), "rank 1 collects 1 trajectories (1; checksum "),
        (lambda shards: shards.collect(torch.tensor([0]), split=shards.rank == 1), "split over heads"),
        (
            lambda shards: shards.sync() if shards.rank else shards.collect(torch.tensor([0])),
            "rank 1 synchronises: all ranks must make the same calls in the same order",
        ),
    ],
    ids=["count", "way", "distinct", "by steps", "central", "columns", "indices", "split", "another call"],
)
def test_ranks_that_ask_for_different_things(call, says):
    assert says in refused_by_all(call)


@pytest.mark.parametrize(
    "other",
    [
        lambda shards, out: shards.sync(),
        lambda shards, out: shards.collect(torch.tensor([8]), out=out),
        lambda shards, out: shards.collect(torch.tensor([8, 0]), ["b"]),
        lambda shards, out: shards.collect(torch.tensor([8, 99]), out=out),
    ],
    ids=["no rows", "fewer", "others", "none that there are"],
)
def test_rows_for_another_request_are_thrown_away(other):
    def job(shards):
        shards.insert(trajectories([1 + shards.rank]))
        out, _ = shards.collect(torch.tensor([0, 8]))
        with pytest.raises(UsageError, match="all ranks must make the same calls"):
            other(shards, out) if shards.rank else shards.collect(torch.tensor([8, 0]), out=out)
        before = out["tag"][:, 0].tolist()
        return before, shards.collect(torch.tensor([8, 0]), out=out)[0]["tag"][:, 0].tolist()

    assert on_ranks(2, job) == [([100, 200], [200, 100])] * 2


def test_a_list_whose_collection_was_refused_is_kept():
    def job(shards):
        shards.insert(trajectories([1, 2]))
        indices = shards.select(2, Fifo())
        with pytest.raises(UsageError):
            shards.collect(indices, "ab"[shards.rank])
        with pytest.raises(ReplayTimeoutError):
            shards.allocate(2, timeout_s=0.0)
        shards.collect(indices)
        shards.allocate(2, timeout_s=0.0).abandon()
        return True

    assert on_ranks(2, job, trajectories=2) == [True, True]


def test_of_three_ranks_the_first_that_differs_is_named():
    said = refused_by_all(lambda shards: shards.select(2 + shards.rank // 2), size=3)
    assert said.startswith("rank 0 selects 2 by Uniform(), rank 2 selects 3")


def test_one_call_more_is_refused_on_all():
    def job(shards):
        shards.insert(trajectories([1]))
        if shards.rank == 1:
            with pytest.raises(UsageError) as caught:
                shards.sync()
        else:
            with pytest.raises(UsageError) as caught:
                shards.select(1)
        return str(caught.value), shards.select(1).tolist()

    (one,) = {said for said, _ in on_ranks(2, job)}
    assert one.startswith("rank 0 selects 1 by Uniform(), rank 1 synchronises")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda shards: shards.select(0), "trajectories is an integer of 1 or more, not 0"),
        (lambda shards: shards.select(-3, TopK()), "trajectories is an integer of 1 or more, not -3"),
        (lambda shards: shards.select(2.5), "trajectories is an integer of 1 or more, not 2.5"),
        (lambda shards: shards.select(0, central=True), "trajectories is an integer of 1 or more, not 0"),
        (lambda shards: shards.select(2, TopK(), central=True), "central selection is by Uniform() or Weighted()"),
        (lambda shards: shards.select(5, distinct=True), "5 distinct trajectories are wanted, but only 4 can"),
        (lambda shards: shards.select(5, TopK()), "5 distinct trajectories are wanted, but only 4 can be selected"),
        (lambda shards: shards.select(2, TopK(), by_steps=True), "by_steps goes with Uniform() and Weighted()"),
        (lambda shards: shards.select(2, "uniform"), "selected by Uniform, Weighted, TopK, Fifo, Lifo, not 'uniform'"),
        (
            lambda shards: shards.collect(torch.tensor([0, 16])),
            "index 16, at place 1, is none of 2 shards of 8 trajectories: 0 to 15",
        ),
        (lambda shards: shards.collect(torch.tensor([-1])), "index -1, at place 0, is none of 2 shards"),
        (lambda shards: shards.collect(torch.tensor([0.0])), "indices are int64 [n], not torch.float32 [1]"),
        (
            lambda shards: shards.collect(torch.tensor([0, 10])),
            "there is no trajectory 10, at place 1: rank 1 has 2 of 8; it was evicted, or never committed",
        ),
        (lambda shards: shards.collect(torch.tensor(0)), "indices are int64 [n], not torch.int64 []"),
        (lambda shards: shards.collect(torch.tensor([[0, 8]])), "indices are int64 [n], not torch.int64 [1, 2]"),
        (lambda shards: shards.collect(torch.tensor([0]), []), "no column is to be collected: name some, or None"),
        (lambda shards: shards.collect(torch.tensor([0]), ["c"]), "there is no column 'c' (columns: a, b)"),
        (lambda shards: shards.collect(torch.tensor([0]), split=True), "1 trajectories cannot be split over 2 heads"),
        (
            lambda shards: shards.collect(torch.tensor([0]), window=(torch.tensor([0]), 5)),
            "a window has starts int64 or float64 [1] and a length of 1 to 4",
        ),
        (
            lambda shards: shards.collect(torch.tensor([0]), window=(torch.tensor([1.0]).double(), 1)),
            "starts of windows are steps (int64) or fractions from 0 to below 1 (float64)",
        ),
        (lambda shards: shards.collect(torch.tensor([0]), window=(torch.tensor([-1]), 1)), "begins at step 0"),
        (lambda shards: shards.collect(torch.tensor([0]), window=(torch.tensor(9), 1)), "not torch.int64 [] and 1"),
        (
            lambda shards: shards.collect(torch.tensor([0, 1]), window=(torch.tensor([[0], [9]]), 1)),
            "a window has starts int64 or float64 [2] and a length of 1 to 4, not torch.int64 [2, 1] and 1",
        ),
        (lambda shards: shards.collect(torch.tensor([0]), window=(torch.tensor([0]), 1.5)), "[1] and 1.5"),
        (
            lambda shards: shards.collect(torch.tensor([0, 9]), window=(torch.tensor([0, 4]), 1)),
            "a window from step 4 on of trajectory 9, at place 1: it has 4 steps",
        ),
        (lambda shards: shards.collect(["a"]), "indices are a tensor or a list of numbers, not ['a']"),
        (lambda shards: shards.collect([0], window=([[0], [1, 2]], 1)), "starts of windows are a tensor or a list"),
        (lambda shards: shards.collect([0], window=4), "a window is (starts, length), not 4"),
        (lambda shards: shards.collect([0], window=(["a"], 2)), "starts of windows are a tensor or a list of numbers"),
        (lambda shards: shards.update(torch.tensor([99]), 1.0), "index 99, at place 0, is none of 2 shards"),
        (lambda shards: shards.update(torch.tensor([0]), -1.0), "a priority must be a number of 0 or more, not -1.0"),
        (lambda shards: shards.update(torch.tensor([0]), float("nan")), "a priority must be a number of 0 or more"),
        (lambda shards: shards.update(torch.tensor([0, 1]), torch.ones(3)), "priorities are [3], the indices [2]"),
        (lambda shards: shards.allocate(9), "1 to 8 trajectories can be allocated at once, not 9"),
        (lambda shards: shards.insert(trajectories([1], steps=5)), "trajectories are [n, T, ...] with 1 to 4 steps"),
        (lambda shards: shards.insert(trajectories([1]), lengths=0), "a trajectory has 1 to 4 steps, not 0"),
        (lambda shards: shards.insert(trajectories([1]), lengths=1.5), "lengths are integers, not torch.float32"),
        (lambda shards: shards.insert(trajectories([1]), torch.empty(0)), "as many lengths and priorities"),
        (lambda shards: shards.insert(trajectories([1], steps=2), lengths=3), "3 is more than the 2 steps"),
        (lambda shards: shards.insert(trajectories([1]), priorities=-1), "a priority must be a number of 0 or more"),
        (lambda shards: shards.insert(trajectories([1]), torch.ones(2)), "as many lengths and priorities"),
        (lambda shards: shards.insert({"tag": torch.zeros(1, 4)}), "value is missing"),
        (lambda shards: shards.allocate(1).write(4, {}), "step 4: trajectories have the steps 0 to 3"),
        (lambda shards: shards.allocate(1).write(0, {"x": torch.zeros(1)}), "x [1] is unknown (fields: value, tag)"),
        (lambda shards: shards.allocate(1).write(0, {"tag": torch.zeros(2)}), "tag [2] is not [1, *[]]"),
        (lambda shards: shards.prefetch(0, 1), "1 batch at least is prefetched, not 0"),
    ],
)
def test_bad_requests(call, says):
    assert says in refused_by_all(call)


def test_a_central_selection_that_was_refused_holds_nothing():
    def job(shards):
        shards.insert(trajectories([1, 2]))
        with pytest.raises(UsageError, match="the same calls"):
            shards.select(1 + shards.rank, central=True)
        shards.allocate(2, timeout_s=0.0).abandon()
        return True

    assert on_ranks(2, job, trajectories=2) == [True, True]


def test_what_was_refused_has_not_taken_room():
    def job(shards):
        for _ in range(20):
            with pytest.raises(UsageError):
                shards.insert(trajectories([1]), lengths=7)
        shards.insert(trajectories(range(8)))
        return len(shards.select(8, distinct=True))

    assert on_ranks(1, job) == [8]


def test_long_calls_that_differ_are_told_whole():
    words = "x" * 2000
    said = refused_by_all(lambda shards: shards.agree(words + "ab"[shards.rank]))
    assert said.startswith(f"rank 0 {words}a, rank 1 {words}b: all ranks")


@pytest.mark.parametrize(
    "select",
    [
        lambda shards: shards.select(3, Weighted(2.0)),
        lambda shards: shards.select(3, Weighted(2.0), by_steps=True),
        lambda shards: shards.select(3, Weighted(2.0), distinct=True),
        lambda shards: shards.select(3, Weighted(2.0), central=True),
    ],
    ids=["with replacement", "by steps", "distinct", "central"],
)
def test_weights_that_are_no_numbers(select):
    """Also where only one shard has such priorities, and only until they are others."""

    def job(shards):
        shards.insert(trajectories([1, 2]), priorities=[1e200, 2e200] if shards.rank else 1.0)
        with pytest.raises(UsageError) as caught:
            select(shards)
        assert len(shards.select(20, Weighted(0.5))) == 20
        shards.update([8, 9], 1e100)
        return str(caught.value), len(select(shards))

    (said,) = set(on_ranks(2, job))
    assert said == (
        "Weighted(exponent=2.0) gives the trajectories a weight of inf together, 1e+290 at most can be drawn from: "
        "give them smaller priorities, or take a smaller exponent",
        3,
    )


def test_weights_that_become_no_numbers_after_they_were_told():
    def job(shards):
        shards.insert(trajectories([1, 2]))
        assert len(shards.select(3, Weighted(2.0))) == 3
        shards.update([0], 1e200)
        with pytest.raises(UsageError, match="a weight of inf together"):
            shards.select(8, Weighted(2.0))
        return True

    assert on_ranks(1, job, sync_every=100) == [True]


def test_priorities_that_the_remover_cannot_take():
    def job(shards):
        says = r"a priority must be 1e\+145 at most, not 1e\+200"
        with pytest.raises(UsageError, match=says):
            shards.insert(trajectories([1]), priorities=1e200)
        shards.insert(trajectories([1, 2]))
        with pytest.raises(UsageError, match=says):
            shards.update([0], 1e200)
        return len(shards.select(2))

    assert on_ranks(1, job, remover=Prioritized(2.0), trajectories=2) == [2]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"trajectories": 0}, "a shard has room for 1 trajectory of 1 step at least, not 0 of 4"),
        ({"trajectories": 2**40}, f"{2**40} trajectories of 4 steps need "),
        ({"trajectories": 2.5}, "trajectories is an integer, not 2.5"),
        ({"steps": 2**24}, "a trajectory has 16777215 steps at most, not 16777216"),
        ({"device": "npu"}, "collected trajectories go to a device such as cpu or cuda:0, not 'npu'"),
        ({"placement": "device"}, "shards lie in cpu, shared, pinned, file, not 'device'"),
        ({"remover": Uniform()}, "a remover is a selector of gmi_drl.replay.selectors, not Uniform()"),
        ({"heads": []}, "heads are ranks of 0 to 0, none twice, not []"),
        ({"heads": [0, 0]}, "none twice, not [0, 0]"),
        ({"heads": [1]}, "heads are ranks of 0 to 0, none twice, not [1]"),
        ({"sync_every": 0}, "sync_every must be an integer of 1 at least, not 0"),
        ({"sync_every": 1.5}, "sync_every must be an integer of 1 at least, not 1.5"),
    ],
)
def test_settings(options, says):
    with pytest.raises((UsageError, MachineError)) as caught:
        open_shards(AloneLink(), SIGNATURE, **({"trajectories": 8, "steps": 4, "placement": "cpu"} | options))
    assert says in str(caught.value)


def test_exponents():
    with pytest.raises(UsageError, match="0 or more, not -1"):
        Weighted(-1)
