"""Minari's episodes as tasks of gymnasium's spaces have them."""

import numpy as np
import pytest
import torch
from made_episodes import made_episodes, write_minari

from gmi_drl.errors import UsageError
from gmi_drl.replay import EpisodeSet, import_episodes
from gmi_drl.replay.importing.sources import episodes_in
from gmi_drl.tasks.adapters.gymnasium import spec_of_spaces
from gmi_drl.tasks.adapters.spaces import ActionSpace, ObservationSpace

h5py = pytest.importorskip("h5py", reason="needs the extra [offline]")


def written(source, into):
    import_episodes(episodes_in(source), into)
    return EpisodeSet(into)


class Envs:
    def __init__(self, seen, acts):
        self.single_observation_space, self.single_action_space = seen, acts


def test_minari_is_what_the_task_of_the_same_spaces_learns_from(tmp_path):
    """Of samples of gymnasium's spaces the import has the rows that the adapter shows and takes."""
    spaces = pytest.importorskip("gymnasium", reason="needs the extra [gymnasium]").spaces
    seen = spaces.Dict({"b": spaces.Box(-1, 1, (2, 2)), "a": spaces.Tuple([spaces.Box(-1, 1, (1,))] * 11)})
    pairs = [
        (spaces.Box(-1, 1, (3,), np.float64), spaces.Discrete(4)),
        (seen, spaces.MultiDiscrete([2, 3])),
        (seen, spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(-1, 1, (2,)), "c": spaces.MultiBinary(2)})),
    ]
    for number, pair in enumerate(pairs):
        for space in pair:
            space.seed(number)
        obs, action = ([space.sample() for _ in range(rows)] for space, rows in zip(pair, (10, 9), strict=True))
        made = {"reward": np.ones(9), "terminated": np.zeros(9, bool), "truncated": np.arange(9) == 8}
        path, into = tmp_path / f"{number}.hdf5", tmp_path / f"{number}.replay"
        write_minari(path, [made | {"obs": stacked(obs), "action": stacked(action)}], h5py)
        episodes, spec = written(path, into), spec_of_spaces("made", Envs(*pair), 9)
        episodes.require(spec)
        rows = episodes.storage.rows.fields
        assert torch.equal(
            rows["obs"][:10], ObservationSpace("made", pair[0]).tensor(stacked(obs), torch.device("cpu"))
        )
        assert tree_equal(ActionSpace("made", pair[1]).nested(rows["action"][:9]), stacked(action))


def stacked(samples):
    """Samples of a space as Minari has them."""
    if isinstance(samples[0], dict):
        return {key: stacked([one[key] for one in samples]) for key in samples[0]}
    if isinstance(samples[0], tuple):
        return tuple(stacked(list(one)) for one in zip(*samples, strict=True))
    return np.stack(samples)


def tree_equal(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(tree_equal(one[key], other[key]) for key in one)
    return np.array_equal(one, other)


def test_what_a_task_cannot_learn_from_is_refused_with_the_remedy(tmp_path):
    spaces = pytest.importorskip("gymnasium", reason="needs the extra [gymnasium]").spaces
    one = next(made_episodes(1))
    write_minari(tmp_path / "a.hdf5", [one | {"obs": np.zeros(len(one["obs"]), np.int64)}], h5py)
    spec = spec_of_spaces("made", Envs(spaces.Discrete(4), spaces.Box(-1, 1, (2,))), 9)
    with pytest.raises(
        UsageError, match=r"has obs int64\[\], made has obs float32\[4\]: give import_episodes the fields"
    ):
        written(tmp_path / "a.hdf5", tmp_path / "a.replay").require(spec)
