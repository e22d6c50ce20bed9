"""Shards of a folder of episodes: each rank serves its own from where they lie, windows too."""

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay import EpisodeSet, import_episodes
from gmi_drl.replay.shards import ByPriority, Fifo, Weighted, open_shards_of_folder, plan_placement
from tests.replay.importing.made_episodes import made_episodes
from tests.replay.shards.shard_ranks import together

COUNT, LONGEST = 7, 12


@pytest.fixture
def folder(tmp_path):
    import_episodes(made_episodes(COUNT, longest=LONGEST), tmp_path / "a.replay")
    return tmp_path / "a.replay"


def on_shards(folder, size, job, **settings):
    """What `job(shards, episodes)` gives on each rank."""

    def live(link):
        episodes = EpisodeSet(folder)
        return job(open_shards_of_folder(link, episodes, **settings), episodes)

    return together(size, live)


def numbers(shards, owners, indices):
    """The episodes at global indices."""
    room = shards.shard.trajectories
    own = [[number for number, owner in enumerate(owners) if owner == rank] for rank in range(shards.size)]
    return [own[index // room][index % room] for index in indices.tolist()]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_whole_episodes_come_from_their_owners_with_zeros_behind_their_ends(folder, size):
    def job(shards, episodes):
        indices = shards.select(COUNT, Fifo())
        fields, lengths = shards.collect(indices)
        owners = [number % size for number in range(COUNT)]
        assert numbers(shards, owners, indices) == list(range(COUNT))  # the oldest first: in the order of the folder
        assert lengths.tolist() == episodes.lengths.tolist()
        whole = episodes.windows(torch.arange(COUNT), torch.zeros(COUNT, dtype=torch.int64), shards.shard.steps)
        for name, value in whole.fields.items():
            assert torch.equal(fields[name], value)
        return sum(shards.bytes.values()) > 0

    assert on_shards(folder, size, job) == [size > 1] * size


@pytest.mark.parametrize("size", [1, 2])
def test_prefetched_windows_begin_anywhere_and_are_those_without_it(folder, size):
    window = 4

    def job(shards, episodes):
        batches = shards.prefetch(2, 9, window=window, columns=["step"], split=True)
        ahead = next(batches)
        first = {name: value.clone() for name, value in ahead.fields.items()}
        shards.end_prefetch()
        shards.load_state_dict({"selections": torch.tensor(0), "epochs": torch.tensor(0.0)})
        indices = shards.select(9)
        assert torch.equal(indices, ahead.indices)
        points = shards.random_starts(9)
        fields, lengths = shards.collect(indices, window=(points, window))
        own = slice(shards.rank * 9 // size, (shards.rank + 1) * 9 // size)
        assert torch.equal(first["obs"], fields["obs"][own]) and torch.equal(ahead.lengths, lengths[own])
        at = torch.tensor(numbers(shards, [number % size for number in range(COUNT)], indices))
        places = (episodes.lengths[at] - window + 1).clamp(min=1)
        starts = (points * places).long()
        assert torch.equal(fields["obs"], episodes.windows(at, starts, window).fields["obs"])
        assert torch.equal(lengths, (episodes.lengths[at] - starts).clamp(max=window))
        return starts.tolist()

    assert len({tuple(starts) for starts in on_shards(folder, size, job)}) == 1


def test_going_on_from_a_state_gives_the_same_lists(folder):
    priorities = torch.arange(1.0, 1 + COUNT)

    def whole(shards, episodes):
        return [shards.select(5, Weighted()).tolist() for _ in range(4)], shards.epoch()

    def half(shards, episodes):
        batches = shards.prefetch(2, 5, Weighted())
        for _ in range(2):
            next(batches)
        return shards.state_dict()

    state = on_shards(folder, 2, half, priorities=priorities)[0]

    def rest(shards, episodes):
        shards.load_state_dict(state)
        return [shards.select(5, Weighted()).tolist() for _ in range(2)], shards.epoch()

    lists, epochs = on_shards(folder, 2, whole, priorities=priorities)[0]
    assert on_shards(folder, 2, rest, priorities=priorities) == [(lists[2:], epochs)] * 2


def test_the_likeliest_lie_on_heads(folder):
    priorities = torch.tensor([1.0, 9, 1, 1, 9, 1, 1])

    def job(shards, episodes):
        owners = plan_placement(priorities.tolist(), 4, 2, ByPriority((1,)))
        assert {1, 4} <= set(shards.shard.numbers.tolist()) if shards.rank else True
        drawn = shards.select(400, Weighted())
        fields, _ = shards.collect(drawn, ["step"])
        named = torch.tensor(numbers(shards, owners, drawn)) if shards.rank else None
        if named is not None:
            assert torch.equal(fields["obs"][:, 0], episodes.storage.rows.fields["obs"][episodes.first[named]])
        return len(fields["obs"]), shards.shard.table.size

    settings = {"priorities": priorities, "placement": ByPriority((1,)), "heads": (1,)}
    assert on_shards(folder, 2, job, **settings) == [(0, 3), (400, 4)]


def test_what_a_folder_does_not_do(folder):
    def job(shards, episodes):
        with pytest.raises(UsageError, match=r"shard \d of 2 is of .*a\.replay: open other shards for episodes"):
            shards.allocate(1)
        with pytest.raises(UsageError, match="nothing to save but how far they have come"):
            shards.save(folder.parent / "saved", 1)
        shards.evict(torch.tensor([0]))
        shards.sync()
        with pytest.raises(UsageError, match="there is no trajectory 0, at place 0: rank 0 has 3 of 4"):
            shards.collect(torch.tensor([0]))
        return True

    assert on_shards(folder, 2, job) == [True, True]


def test_fewer_episodes_than_ranks_and_folders_that_differ(folder, tmp_path):
    with pytest.raises(UsageError, match="has 7 episodes, 8 ranks need one each: use fewer ranks"):
        on_shards(folder, 8, lambda shards, episodes: None)
    import_episodes(made_episodes(COUNT, seed=1, longest=LONGEST), tmp_path / "b.replay")

    def live(link):
        episodes = EpisodeSet(tmp_path / f"{'ab'[link.rank]}.replay")
        with pytest.raises(UsageError, match=r"rank 0 opens shards .*7 episodes \(checksum .* rank 1 opens"):
            open_shards_of_folder(link, episodes)
        return True

    assert together(2, live) == [True, True]
    with pytest.raises(UsageError, match=r"has 7 episodes, the priorities are \[3\]"):
        on_shards(folder, 1, lambda shards, episodes: None, priorities=torch.ones(3))
