import numpy as np
import pytest
import torch
from replay.importing.made_episodes import made_episodes

from gmi_drl.errors import UsageError
from gmi_drl.replay import EpisodeSet, import_episodes
from gmi_drl.roles.sequence.draws import Draws, scaling_of

CONTEXT = 4


@pytest.fixture
def episodes(tmp_path):
    import_episodes(made_episodes(7, longest=12), tmp_path / "a.replay")
    return EpisodeSet(tmp_path / "a.replay")


def draws(episodes, rank=0, ranks=1, exponent=0.0, seed=0):
    return Draws(episodes, rank, ranks, CONTEXT, exponent, torch.Generator().manual_seed(seed))


def known(episodes):
    """The first observation of every context, with its episode."""
    rows = episodes.storage.rows.fields["obs"]
    return {
        tuple(rows[int(first) + start].tolist()): number
        for number, (first, length) in enumerate(zip(episodes.first, episodes.lengths, strict=True))
        for start in range(max(1, int(length) - CONTEXT + 1))
    }


def test_every_context_is_drawn_alike_and_each_gmi_has_its_own_episodes(episodes):
    of = known(episodes)
    for rank, ranks in ((0, 1), (0, 2), (1, 2)):
        drawn = draws(episodes, rank, ranks)
        seen = [tuple(row) for _ in range(20) for row in drawn.draw(200).obs[:, 0].tolist()]
        own = {context for context, number in of.items() if number % ranks == rank}
        assert set(seen) == own
        counts = torch.tensor([seen.count(context) for context in sorted(own)])
        expected = len(seen) / len(own)
        assert float(((counts - expected) ** 2 / expected).sum()) < 3 * len(own)


def test_contexts_are_stretches_of_one_episode(episodes):
    batch = draws(episodes).draw(300)
    of, lengths = known(episodes), episodes.lengths
    for row in range(300):
        number = of[tuple(batch.obs[row, 0].tolist())]
        steps = int(batch.is_step[row].sum())
        assert steps == min(CONTEXT, int(lengths[number]))
        assert not batch.obs[row, steps:].any()
        stored = episodes.windows(torch.tensor([number]), torch.tensor([0]), 12).fields["return_to_go"][0].tolist()
        begin = stored.index(float(batch.to_go[row, 0]))
        assert batch.to_go[row, :steps].tolist() == stored[begin : begin + steps]


def test_good_episodes_are_likelier(episodes):
    of, returns = known(episodes), episodes.returns
    drawn = [of[tuple(row)] for row in draws(episodes, exponent=2.0).draw(3000).obs[:, 0].tolist()]
    assert int(returns.argmin()) not in drawn
    parts = (returns - returns.min()) / (returns.max() - returns.min())
    weights = parts.square() * (episodes.lengths - CONTEXT + 1).clamp(min=1)
    expected = 3000 * weights / weights.sum()
    counts = torch.bincount(torch.tensor(drawn), minlength=len(returns))
    assert float(((counts - expected) ** 2 / expected.clamp(min=1)).sum()) < 40


def test_weights_of_mediocre_episodes_count_however_small_they_are(episodes):
    best, returns = int(episodes.returns.argmax()), episodes.returns
    rank = (best + 1) % 3
    of = known(episodes)
    drawn = [of[tuple(row)] for row in draws(episodes, rank, 3, exponent=60.0).draw(50).obs[:, 0].tolist()]
    own = range(rank, len(episodes), 3)
    assert set(drawn) == {max(own, key=lambda number: float(returns[number]))}


def test_observations_too_large_for_moments_are_refused(tmp_path):
    import_episodes([{"obs": np.zeros((2, 5000)), "action": np.zeros((2, 1)), "reward": np.ones(2)}], tmp_path / "a")
    with pytest.raises(UsageError, match="no moments of obs: an import keeps those of 4096 numbers at most"):
        scaling_of(EpisodeSet(tmp_path / "a"), None)


def test_the_best_tenth_is_asked_for(episodes):
    statistics = scaling_of(episodes, None)
    assert float(statistics[-2]) == float(episodes.returns.max())
    assert float(statistics[-1]) == float(episodes.returns.abs().max())
    assert float(scaling_of(episodes, 3.0)[-2]) == 3.0
