import numpy as np
import pytest
import torch
from replay.importing.made_episodes import made_episodes

from gmi_drl.comm.links.alone import AloneLink
from gmi_drl.errors import UsageError
from gmi_drl.replay import EpisodeSet, import_episodes
from gmi_drl.roles.sequence.draws import Draws, scaling_of, weights_of
from tests.replay.shards.shard_ranks import together

CONTEXT = 4


@pytest.fixture
def episodes(tmp_path):
    import_episodes(made_episodes(7, longest=12), tmp_path / "a.replay")
    return EpisodeSet(tmp_path / "a.replay")


def draws(episodes, *, batch=200, exponent=0.0, seed=0, link=None):
    return Draws(episodes, link or AloneLink(), context=CONTEXT, batch=batch, exponent=exponent, seed=seed)


def known(episodes):
    """The first observation of every context, with its episode."""
    rows = episodes.storage.rows.fields["obs"]
    return {
        tuple(rows[int(first) + start].tolist()): number
        for number, (first, length) in enumerate(zip(episodes.first, episodes.lengths, strict=True))
        for start in range(max(1, int(length) - CONTEXT + 1))
    }


def test_every_context_is_drawn_alike(episodes):
    of, drawing = known(episodes), draws(episodes)
    seen = [tuple(row) for _ in range(20) for row in drawing.draw().obs[:, 0].tolist()]
    drawing.close()
    assert set(seen) == set(of)
    counts = torch.tensor([seen.count(context) for context in sorted(of)])
    expected = len(seen) / len(of)
    assert float(((counts - expected) ** 2 / expected).sum()) < 3 * len(of)


@pytest.mark.parametrize("size", [2, 3])
def test_gmis_share_a_batch_exactly_and_own_all_episodes_between_them(episodes, size):
    batch = 50

    def live(link):
        drawing = draws(EpisodeSet(episodes.folder), batch=batch, link=link)
        owned = drawing._shards.shard.numbers.tolist()
        got = [drawing.draw().obs.clone() for _ in range(3)]
        state = drawing.state_dict()
        drawing.close()
        assert [len(part) for part in got] == [round(drawing.share * batch)] * 3
        return owned, got, state

    came = together(size, live)
    assert sorted(number for owned, _, _ in came for number in owned) == list(range(len(episodes)))
    parts = [got for _, got, _ in came]
    assert sum(len(part[0]) for part in parts) == batch
    assert not torch.equal(parts[0][0][:5], parts[0][1][:5])
    assert {int(state["selections"]) for _, _, state in came} == {3}


def test_a_training_goes_on_in_the_middle_of_an_epoch_with_the_same_batches(episodes):
    def live(link, state=None, skipped=0):
        drawing = draws(EpisodeSet(episodes.folder), batch=6, link=link, exponent=1.0)
        if state:
            drawing.draw()
            drawing.load_state_dict(state)
        for _ in range(skipped):
            drawing.draw()
        state = drawing.state_dict()
        got = [drawing.draw().obs.clone() for _ in range(4)]
        drawing.close()
        return state, got

    whole = together(2, lambda link: live(link, skipped=5))
    again = together(2, lambda link: live(link, state=whole[0][0]))
    for (_, got), (_, other) in zip(whole, again, strict=True):
        assert all(map(torch.equal, got, other))


def test_contexts_are_stretches_of_one_episode(episodes):
    drawing = draws(episodes, batch=300)
    batch = drawing.draw()
    of, lengths = known(episodes), episodes.lengths
    for row in range(300):
        number = of[tuple(batch.obs[row, 0].tolist())]
        steps = int(batch.is_step[row].sum())
        assert steps == min(CONTEXT, int(lengths[number]))
        assert not batch.obs[row, steps:].any()
        stored = episodes.windows(torch.tensor([number]), torch.tensor([0]), 12).fields["return_to_go"][0].tolist()
        begin = stored.index(float(batch.to_go[row, 0]))
        assert batch.to_go[row, :steps].tolist() == stored[begin : begin + steps]
    drawing.close()


def test_good_episodes_are_likelier(episodes):
    of, returns = known(episodes), episodes.returns
    drawing = draws(episodes, batch=3000, exponent=2.0)
    drawn = [of[tuple(row)] for row in drawing.draw().obs[:, 0].tolist()]
    drawing.close()
    assert int(returns.argmin()) not in drawn
    parts = (returns - returns.min()) / (returns.max() - returns.min())
    weights = parts.square() * (episodes.lengths - CONTEXT + 1).clamp(min=1)
    expected = 3000 * weights / weights.sum()
    counts = torch.bincount(torch.tensor(drawn), minlength=len(returns))
    assert float(((counts - expected) ** 2 / expected.clamp(min=1)).sum()) < 40


def test_equal_returns_are_equally_likely_whatever_the_exponent(tmp_path):
    episodes = ({"obs": np.zeros((n, 2)), "action": np.zeros((n, 1)), "reward": np.full(n, 6 / n)} for n in (2, 6))
    import_episodes(episodes, tmp_path / "a.replay")
    assert weights_of(EpisodeSet(tmp_path / "a.replay"), CONTEXT, 2.0).tolist() == [1.0, 3.0]


def test_observations_too_large_for_moments_are_refused(tmp_path):
    import_episodes([{"obs": np.zeros((2, 5000)), "action": np.zeros((2, 1)), "reward": np.ones(2)}], tmp_path / "a")
    with pytest.raises(UsageError, match="no moments of obs: an import keeps those of 4096 numbers at most"):
        scaling_of(EpisodeSet(tmp_path / "a"), None)


def test_the_best_tenth_is_asked_for(episodes):
    statistics = scaling_of(episodes, None)
    assert float(statistics[-2]) == float(episodes.returns.max())
    assert float(statistics[-1]) == float(episodes.returns.abs().max())
    assert float(scaling_of(episodes, 3.0)[-2]) == 3.0
