"""Readers of what others wrote; HDF5's need the extra [offline]."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from made_episodes import made_episodes, write_d4rl, write_minari

from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.replay import EpisodeSet, ExperienceDataset, import_episodes
from gmi_drl.replay.importing.datasets import episodes_of_dataset
from gmi_drl.replay.importing.sources import episodes_in

sys.path.append(str(Path(__file__).parents[1] / "files"))

from blocks import index_of, random_experience

from gmi_drl.replay.files.shards import ShardFiles


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="needs the extra [offline]")


def returns_of(made):
    return [float(one["reward"].sum()) for one in made]


def imported(source, into, **options):
    import_episodes(episodes_in(source), into, **options)
    return EpisodeSet(into)


def test_minari_with_several_files(tmp_path, h5py):
    made = list(made_episodes(5))
    folder = tmp_path / "hopper" / "data"
    folder.mkdir(parents=True)
    write_minari(folder / "additional_data_0.hdf5", made[:2], h5py)
    write_minari(folder / "main_data.hdf5", made[2:], h5py)
    episodes = imported(tmp_path / "hopper", tmp_path / "a.replay")
    assert episodes.returns.tolist() == pytest.approx(returns_of(made), abs=1e-4)
    assert episodes.knows_last.all() and {"obs", "action", "truncated"} <= episodes.signature.by_name.keys()
    assert len(imported(folder / "main_data.hdf5", tmp_path / "b.replay")) == 3


def test_minari_with_nested_spaces(tmp_path, h5py):
    one = next(made_episodes(1))
    nested = {"state": one["obs"], "_index_0": {"camera": np.zeros((len(one["obs"]), 2, 2), np.uint8)}}
    write_minari(tmp_path / "a.hdf5", [one | {"obs": nested}], h5py)
    fields = imported(tmp_path / "a.hdf5", tmp_path / "a.replay").signature.by_name
    assert {"obs/state", "obs/0/camera"} <= fields.keys() and fields["obs/0/camera"].dtype == torch.uint8


@pytest.mark.parametrize("name", ("obs", "next"))
@pytest.mark.parametrize("has_timeouts", (False, True))
def test_d4rl_with_numbers_that_are_not_finite_leaves_out_whole_episodes(tmp_path, h5py, name, has_timeouts):
    path, made = tmp_path / "a.hdf5", list(made_episodes(6, longest=20))
    write_d4rl(path, made, h5py, has_timeouts=has_timeouts)
    step = len(made[0]["reward"]) + len(made[1]["reward"]) // 2
    with h5py.File(path, "r+") as file:
        file[{"obs": "observations", "next": "next_observations"}[name]][step] = [np.nan, np.inf, 1.0]
        file["observations" if name == "next" else "next_observations"][
            step + (name == "next") - (name == "obs"), 2
        ] = 1
    if name == "next":  # only what ends an episode is stored of `next_observations`
        assert imported(path, tmp_path / "a.replay").lengths.tolist() == [len(one["reward"]) for one in made]
        return
    done = import_episodes(episodes_in(path), tmp_path / "a.replay", skip_broken=True)
    ((told,), lengths) = done.skipped, EpisodeSet(tmp_path / "a.replay").lengths.tolist()
    assert lengths == [len(one["reward"]) for one in made if one is not made[1]]
    assert told.startswith(f"{path}: episode 1 (steps ") and "obs is not finite" in told


def test_d4rl_that_ends_within_an_episode(tmp_path, h5py):
    path, made = tmp_path / "a.hdf5", list(made_episodes(3))
    made[2]["truncated"][:] = False
    write_d4rl(path, made, h5py, has_next=False)
    first, steps = (sum(len(one["reward"]) for one in made[:count]) for count in (2, 3))
    with pytest.raises(UsageError) as raised:
        imported(path, tmp_path / "a.replay")
    place = f"{path}: episode 2 (steps {first} to {steps - 1}): it has no end, as the recording ends within it: "
    assert str(raised.value) == place + "skip_broken (--skip-broken) leaves it out"
    done = import_episodes(episodes_in(path), tmp_path / "a.replay", skip_broken=True)
    assert done.episodes == 2 and done.steps == first and done.skipped == (str(raised.value),)
    write_d4rl(path, made, h5py)  # what follows the last step is known
    assert len(imported(path, tmp_path / "b.replay")) == 3


@pytest.mark.parametrize("has", ({"has_timeouts": True}, {"has_next": True}, {"has_timeouts": True, "has_next": True}))
def test_d4rl(tmp_path, h5py, has):
    made = list(made_episodes(6))
    write_d4rl(tmp_path / "a.hdf5", made, h5py, **{"has_timeouts": False, "has_next": False} | has)
    episodes = imported(tmp_path / "a.hdf5", tmp_path / "a.replay")
    assert episodes.returns.tolist() == pytest.approx(returns_of(made), abs=1e-4)
    assert bool(episodes.knows_last.all()) == has.get("has_next", False)
    ends = episodes.first + episodes.lengths - 1
    assert episodes.storage.rows.fields["terminated"][ends].tolist() == [False, True] * 3


def test_d4rl_with_a_single_step(tmp_path, h5py):
    write_d4rl(
        tmp_path / "a.hdf5", [{name: value[-2:] for name, value in one.items()} for one in made_episodes(1)], h5py
    )
    with h5py.File(tmp_path / "a.hdf5", "r+") as file:
        for name in list(file):
            value = file[name][:1]
            del file[name]
            file[name] = value
    episodes = imported(tmp_path / "a.hdf5", tmp_path / "a.replay")
    assert episodes.lengths.tolist() == [1] and episodes.knows_last.tolist() == [True]


def test_mistakes_of_minari_are_named_with_file_and_episode(tmp_path, h5py):
    path = tmp_path / "a.hdf5"

    def changed(change, words):
        write_minari(path, made_episodes(3), h5py)
        with h5py.File(path, "r+") as file:
            change(file["episode_1"])
        with pytest.raises(UsageError) as raised:
            imported(path, tmp_path / "a.replay")
        assert str(raised.value).startswith(f"{path}: episode 1: ") and words in str(raised.value)
        done = import_episodes(episodes_in(path), tmp_path / f"{words}.replay", skip_broken=True)
        assert done.episodes == 2 and len(done.skipped) == 1

    def replaced(name, value):
        def change(group):
            del group[name]
            if value is not None:
                group[name] = value

        return change

    changed(replaced("rewards", None), "it has no rewards")
    changed(replaced("rewards", ["a", "b"]), "not numbers")
    changed(replaced("truncations", np.zeros(1, bool)), "but reward has")
    changed(replaced("observations", np.full((3, 3), np.nan)), "obs is")
    changed(lambda group: group["terminations"].__setitem__(slice(None), False) or _no_end(group), "it has no end")


def _no_end(group):
    group["truncations"][...] = False


def test_mistakes_of_d4rl_are_named_with_the_file(tmp_path, h5py):
    path, made = tmp_path / "a.hdf5", list(made_episodes(4))
    write_d4rl(path, made, h5py, has_timeouts=False, has_next=False)
    with pytest.raises(UsageError, match="nothing tells where an episode was cut off"):
        imported(path, tmp_path / "a.replay")
    write_d4rl(path, made, h5py)
    with h5py.File(path, "r+") as file:
        file["rewards"][len(made[0]["reward"])] = np.nan
    with pytest.raises(UsageError, match=rf"^{path}: episode 1 \(steps .*reward is not finite in step 0"):
        imported(path, tmp_path / "a.replay")
    with h5py.File(path, "r+") as file:
        terminals = file["terminals"][()].astype(np.float32)
        del file["terminals"]
        file["terminals"] = np.where(np.arange(len(terminals)) == 1, np.nan, terminals)
    with pytest.raises(UsageError, match=rf"^{path}: terminals is nan in step 1, not 0 or 1"):
        imported(path, tmp_path / "a.replay")
    with h5py.File(path, "r+") as file:
        del file["rewards"]
        file["rewards"] = np.zeros(3)
    with pytest.raises(UsageError, match=r"different lengths: observations .*, rewards 3"):
        imported(path, tmp_path / "a.replay")
    with h5py.File(path, "r+") as file:
        del file["rewards"]
        file["rewards"] = ["a", "b"]
    with pytest.raises(UsageError, match=rf"^{path}: /rewards has object, not numbers"):
        imported(path, tmp_path / "a.replay")


def test_without_h5py_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "a.hdf5").write_bytes(b"x")
    with pytest.raises(MachineError, match=r"pip install 'gmi-drl\[offline\]'"):
        episodes_in(tmp_path / "a.hdf5")


def test_other_sources_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        episodes_in(tmp_path / "none")
    with pytest.raises(UsageError, match="no folder with experience"):
        episodes_in(tmp_path)


@pytest.mark.parametrize("kind", ("minari", "d4rl"))
def test_altered_hdf5_files_are_refused_in_words(tmp_path, h5py, kind):
    """50 of the 3,000 of `benchmarks/soak/alter_imports.py`, which reads them in processes of their own."""
    chance = random.Random(kind)
    path = tmp_path / "a.hdf5"
    (write_minari if kind == "minari" else write_d4rl)(path, made_episodes(3), h5py)
    content = path.read_bytes()
    for number in range(25):
        cut = chance.randrange(len(content))
        path.write_bytes(content[:cut] if number % 2 else content[:cut] + bytes(8) + content[cut + 8 :])
        into = tmp_path / f"{number}.replay"
        try:
            imported(path, into)
        except GmiError:
            assert not into.exists()
        else:
            assert len(EpisodeSet(into)) > 0


@pytest.fixture
def served(tmp_path):
    """What two GMIs have served, their blocks."""
    blocks, shards = {}, {0: [], 1: []}
    for gmi in shards:
        blocks[gmi] = [random_experience(steps, 4, seed=10 * gmi + steps) for steps in (3, 1, 9)]
        sink = ShardFiles(tmp_path, gmi, shards[gmi].append)
        for block in blocks[gmi]:
            sink.take(block)
        sink.close()
    (tmp_path / "index.json").write_text(index_of(shards, 4).model_dump_json(by_alias=True))
    return tmp_path, blocks


def test_served_experience(served):
    """Against the slow way: step by step."""
    folder, blocks = served
    expected, lasts = [], []
    for gmi in blocks:
        ended = {world: [] for world in range(4)}
        running = {world: [] for world in range(4)}
        order = []
        for block in blocks[gmi]:
            ends = {tuple(at): obs for at, obs in zip(block.final_at.tolist(), block.final_obs, strict=True)}
            for world in range(4):
                for t in range(block.steps):
                    running[world].append(block.obs[t, world])
                    if (block.terminated | block.truncated)[t, world] or not block.valid[t, world]:
                        if block.valid[t, world]:
                            ended[world].append(running[world])
                            order.append(torch.stack(running[world]))
                            lasts.append(ends[t, world])
                        running[world] = []
        expected += order
    episodes = imported(folder, folder / "a.replay")
    assert episodes.lengths.tolist() == [len(one) for one in expected]
    for first, one, last in zip(episodes.first.tolist(), expected, lasts, strict=True):
        rows = episodes.storage.rows.fields["obs"]
        assert torch.equal(rows[first : first + len(one)], one) and torch.equal(rows[first + len(one)], last)


def test_datasets_of_transitions_and_of_episodes(served, tmp_path):
    folder, _ = served
    dataset = ExperienceDataset(folder)
    in_order = [dataset[number] for number in range(len(dataset))]
    done = import_episodes(episodes_of_dataset(in_order, "seen"), tmp_path / "b.replay", skip_broken=True)
    left = _open_steps(in_order)
    assert done.steps + left == len(dataset)
    rest = f"seen: items {len(dataset) - left} to {len(dataset) - 1}: it has no end"
    assert [told[: len(rest)] for told in done.skipped] == [rest] * bool(left)
    made = list(made_episodes(3))
    assert import_episodes(episodes_of_dataset(made), tmp_path / "c.replay").episodes == 3
    with pytest.raises(UsageError, match="must be a dict with a reward, not int"):
        import_episodes(episodes_of_dataset([1, 2]), tmp_path / "d.replay")
    other = [{**in_order[0]}, {**in_order[0], "more": torch.zeros(())}]
    other[0]["terminated"] = other[0]["truncated"] = torch.tensor(False)
    other[0]["next_obs"] = other[1]["obs"]
    other[1]["terminated"] = torch.tensor(True)
    with pytest.raises(UsageError, match="items 0 to 1: item 1 has other fields than item 0"):
        import_episodes(episodes_of_dataset(other), tmp_path / "d.replay")


def transition(at, **changed):
    return {
        "obs": torch.tensor([at]),
        "next_obs": torch.tensor([at + 1.0]),
        "reward": 1.0,
        "truncated": False,
    } | changed


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"truncated": torch.tensor([0, 1])}, r"item 1: truncated is \[0, 1\], no truth value"),
        ({"terminated": None}, "item 1: terminated is a NoneType, no array of numbers"),
        ({"obs": {"camera": 1}}, "item 1: obs is a dict, no array of numbers"),
    ],
)
def test_mistakes_of_transitions_are_named(changed, words):
    with pytest.raises(UsageError, match=words):
        list(episodes_of_dataset([transition(0.0), transition(1.0, **changed)]))
    for items in ([transition(0.0), 5], [transition(0.0), {"obs": 1}]):
        with pytest.raises(UsageError, match="item 1 must be a dict with a reward"):
            list(episodes_of_dataset(items))


def test_transitions_with_observations_in_parts_are_cut_where_one_does_not_follow():
    """Steps of two environments in turn, as `ExperienceDataset` has them, are not one episode."""
    items = [transition(at) for at in (0.0, 1.0, 7.0, 8.0)]
    for item in items:
        item |= {"obs/a": item.pop("obs"), "next_obs/a": item.pop("next_obs"), "obs/b": 0, "next_obs/b": 0}
    items[-1]["truncated"] = True
    first, second = (episode.read() for episode in episodes_of_dataset(items))
    assert first["obs/a"].flatten().tolist() == [0, 1, 2] and second["obs/a"].flatten().tolist() == [7, 8, 9]
    assert first["truncated"].tolist() == [False, True] and first.keys() == {"obs/a", "obs/b", "reward", "truncated"}


def test_transitions_whose_last_ones_have_no_end_are_named():
    items = [transition(0.0, truncated=True), transition(7.0), transition(8.0)]
    _, rest = episodes_of_dataset(items, "seen")
    assert rest.place == "seen: items 1 to 2"
    with pytest.raises(UsageError, match="it has no end, as the recording ends within it"):
        rest.read()


def test_transitions_are_not_cut_where_a_number_is_not_finite():
    items = [transition(at) for at in (0.0, float("nan"), 2.0)]
    items[2]["truncated"] = True
    (episode,) = episodes_of_dataset(items, "seen")
    assert episode.place == "seen: items 0 to 2"


def _open_steps(items):
    """Steps behind the last end."""
    count = 0
    for before, now in zip(items, [*items[1:], None], strict=True):
        count += 1
        is_cut = now is not None and not torch.equal(before["next_obs"], now["obs"])
        if before["terminated"] or before["truncated"] or is_cut:
            count = 0
    return count


@pytest.mark.parametrize("name", ("replay.json", "state.safetensors", "rows.replay"))
def test_altered_folders_are_refused(tmp_path, name):
    import_episodes(made_episodes(4), tmp_path / "a.replay")
    path, chance = tmp_path / "a.replay" / name, random.Random(name)
    content = path.read_bytes()
    for _ in range(12):
        place = chance.randrange(len(content))
        for altered in (content[:place], content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :], None):
            path.write_bytes(altered) if altered is not None else path.unlink()
            with pytest.raises(UsageError):
                EpisodeSet(tmp_path / "a.replay")
    path.write_bytes(content)
    assert len(EpisodeSet(tmp_path / "a.replay")) == 4
