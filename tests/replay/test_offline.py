"""Windows of recorded episodes, against the slow way."""

import numpy as np
import pytest
from replay.importing.made_episodes import made_episodes

from gmi_drl.errors import UsageError
from gmi_drl.replay import EpisodeSet, import_episodes
from gmi_drl.replay.offline import NEXT_OBS, OfflineWindows

GAMMA = 0.9


def expected(made, n_step, *, knows_last):
    """All windows by their first observation: reward, discount, what follows."""
    found = {}
    for one in made:
        steps, terminated = len(one["reward"]), bool(one["terminated"][-1])
        for start in range(steps):
            end = min(start + n_step, steps)
            if end == steps and not terminated and not knows_last:
                continue
            reward = sum(GAMMA**at * one["reward"][start + at] for at in range(end - start))
            discount = 0.0 if end == steps and terminated else GAMMA ** (end - start)
            found[one["obs"][start].astype(np.float32).tobytes()] = reward, discount, one["obs"][end]
    return found


@pytest.mark.parametrize("n_step", (1, 3, 40))
@pytest.mark.parametrize("knows_last", (True, False))
def test_windows_are_those_of_the_episodes(tmp_path, n_step, knows_last):
    made = list(made_episodes(6))
    given = made if knows_last else [one | {"obs": one["obs"][:-1]} for one in made]
    import_episodes(given, tmp_path / "a.replay")
    windows = OfflineWindows(EpisodeSet(tmp_path / "a.replay"), n_step=n_step, gamma=GAMMA)
    wanted, seen = expected(made, n_step, knows_last=knows_last), set()
    assert windows.windows == len(wanted)
    fields = windows.draw(400)
    for row in range(400):
        key = fields["obs"][row].numpy().tobytes()
        reward, discount, following = wanted[key]
        seen.add(key)
        assert float(fields["reward"][row]) == pytest.approx(reward, abs=1e-5)
        assert float(fields["discount"][row]) == pytest.approx(discount, abs=1e-6)
        if discount:
            assert np.allclose(fields[NEXT_OBS][row], following, atol=1e-6)
    assert seen == wanted.keys()


def test_gmis_draw_from_episodes_of_their_own(tmp_path):
    made = list(made_episodes(6))
    import_episodes(made, tmp_path / "a.replay")
    episodes = EpisodeSet(tmp_path / "a.replay")
    drawn = [
        {
            row.numpy().tobytes()
            for row in OfflineWindows(episodes, n_step=1, gamma=1.0, rank=rank, ranks=2).draw(300)["obs"]
        }
        for rank in range(2)
    ]
    assert not drawn[0] & drawn[1] and len(drawn[0] | drawn[1]) == sum(len(one["reward"]) for one in made)


def test_episodes_without_a_window_are_refused(tmp_path):
    import_episodes(
        [{"obs": np.zeros((2, 3)), "action": np.zeros((2, 1)), "reward": np.zeros(2)}], tmp_path / "a.replay"
    )
    with pytest.raises(UsageError, match="1 episodes have no window of 5 steps"):
        OfflineWindows(EpisodeSet(tmp_path / "a.replay"), n_step=5, gamma=1.0)
