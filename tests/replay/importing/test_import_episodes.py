import os
import resource
import signal

import numpy as np
import pytest
import torch
from made_episodes import made_episodes

from gmi_drl.errors import InUseError, MachineError, UsageError
from gmi_drl.replay import EpisodeSet, Field, Signature, import_episodes
from gmi_drl.replay.importing.draft import Draft
from gmi_drl.replay.importing.spool import laid_out
from gmi_drl.replay.storage.base import steps_of_block


def read(folder, number):
    """All fields of an episode, and the observation after it."""
    episodes = EpisodeSet(folder)
    length = int(episodes.lengths[number])
    rows = episodes.windows(torch.tensor([number]), torch.tensor([0]), length).fields
    last = episodes.storage.rows.fields["obs"][int(episodes.first[number]) + length]
    return {name: value[0] for name, value in rows.items()}, last


def test_what_was_imported_is_read(tmp_path):
    made = list(made_episodes(5))
    done = import_episodes(made, tmp_path / "a.replay")
    assert (done.episodes, done.skipped, done.begins_anew) == (5, (), False)
    assert done.steps == sum(len(one["reward"]) for one in made)
    for number, one in enumerate(made):
        fields, last = read(tmp_path / "a.replay", number)
        assert np.allclose(fields["obs"], one["obs"][:-1]) and np.allclose(last, one["obs"][-1])
        assert np.array_equal(fields["action"], one["action"]) and fields["reward"].dtype == torch.float32
        assert np.array_equal(fields["terminated"], one["terminated"])
        assert np.array_equal(fields["truncated"], one["truncated"])


def test_returns_discounts_and_moments_are_computed_once(tmp_path):
    made = list(made_episodes(4))
    import_episodes(made, tmp_path / "a.replay")
    episodes = EpisodeSet(tmp_path / "a.replay")
    for number, one in enumerate(made):
        fields, _ = read(tmp_path / "a.replay", number)
        to_go = [one["reward"][step:].sum() for step in range(len(one["reward"]))]
        assert np.allclose(fields["return_to_go"], to_go, atol=1e-5)
        assert np.array_equal(fields["discount"], np.where(one["terminated"], 0, 1))
        assert float(episodes.returns[number]) == pytest.approx(to_go[0], abs=1e-5)
    obs = np.concatenate([one["obs"][:-1] for one in made])
    count, mean, m2 = episodes.moments["obs"].split([1, 3, 3])
    assert int(count) == len(obs)
    assert np.allclose(mean, obs.mean(0)) and np.allclose(m2 / count, obs.var(0), atol=1e-5)


def test_past_the_end_of_an_episode_a_window_has_zeros(tmp_path):
    made = list(made_episodes(3))
    import_episodes(made, tmp_path / "a.replay")
    steps = len(made[1]["reward"])
    window = EpisodeSet(tmp_path / "a.replay").windows(torch.tensor([1]), torch.tensor([steps - 1]), 4).fields
    assert np.allclose(window["obs"][0, 0], made[1]["obs"][steps - 1]) and not window["obs"][0, 1:].any()


def test_without_flags_an_episode_was_truncated(tmp_path):
    import_episodes([{"reward": np.ones(2), "camera": {"left": np.zeros((2, 4), np.uint8)}}], tmp_path / "a.replay")
    episodes = EpisodeSet(tmp_path / "a.replay")
    fields = episodes.storage.rows.fields
    assert fields["truncated"][:2].tolist() == [False, True] and not episodes.knows_last.any()
    assert fields["camera/left"].dtype == torch.uint8


MISTAKES = {
    "no reward": ({"reward": None}, "it has no reward"),
    "empty": ({"reward": np.zeros(0)}, "with T of 1 at least"),
    "length": ({"action": np.zeros((2, 2), np.float32)}, "but reward has"),
    "nan": ({"action": np.full((5, 2), np.nan, np.float32)}, "action is not finite in step 0"),
    "nan at last": ({"obs": np.where(np.arange(6)[:, None] < 5, np.zeros(3), np.inf)}, "obs is not finite in step 5"),
    "one number": ({"reward": 3.0}, "reward is [], not [T] with T of 1 at least"),
    "words": ({"action": np.array(["a"] * 5)}, "no array of numbers"),
    "objects": ({"action": np.array([None] * 5)}, "no array of numbers"),
    "complex": ({"action": np.zeros((5, 2), complex)}, "which are not stored"),
    "no end": ({"truncated": np.zeros(5, bool)}, "it has no end: its last step, 4"),
    "ends before": ({"terminated": np.arange(5) == 2}, "it ends in step 2, but has 5 steps"),
    "no flags": ({"terminated": np.full(5, 0.5)}, "of truth values"),
    "given": ({"discount": np.ones(5)}, "an import computes it"),
    "dots": ({"a.b": np.ones(5)}, "a dot in its name"),
    "other fields": ({"more": np.ones(5)}, "more is unknown"),
    "other shape": ({"action": np.zeros((5, 3), np.float32)}, "action is float32[5, 3], not float32[5, 2]"),
}


def right(steps=5):
    last = np.arange(steps) == steps - 1
    arrays = {"obs": np.zeros((steps + 1, 3)), "action": np.zeros((steps, 2), np.float32), "reward": np.zeros(steps)}
    return arrays | {"terminated": np.zeros(steps, bool), "truncated": last}


@pytest.mark.parametrize("change", MISTAKES)
def test_mistakes_are_named_with_the_episode_and_leave_nothing(tmp_path, change):
    changed, words = MISTAKES[change]
    bad = {name: value for name, value in (right() | changed).items() if value is not None}
    with pytest.raises(UsageError, match=r"^episode 1: ") as raised:
        import_episodes([right(), bad], tmp_path / "a.replay")
    assert words in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_broken_ones_are_left_out_and_told(tmp_path):
    bad = [right() | changed for changed, _ in MISTAKES.values() if list(changed) != ["reward"]]
    done = import_episodes([*bad, right(), *bad], tmp_path / "a.replay", skip_broken=True, signature=given())
    assert done.episodes == 1 and len(done.skipped) == 2 * len(bad)
    with pytest.raises(UsageError, match="no episode to import; all 1 have mistakes, the first: episode 0: "):
        import_episodes(bad[:1], tmp_path / "b.replay", skip_broken=True)


def given():
    return Signature([Field("obs", (3,)), Field("action", (2,)), Field("reward")])


def test_a_given_signature_decides(tmp_path):
    with pytest.raises(UsageError, match=r"episode 0: .*action is float32\[5, 2\], not float32\[5, 4\]"):
        other = Signature([Field("obs", (3,)), Field("action", (4,)), Field("reward")])
        import_episodes([right()], tmp_path / "a.replay", other)


def test_a_folder_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "a.replay").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        import_episodes([right()], tmp_path / "a.replay")
    assert [path.name for path in tmp_path.iterdir()] == ["a.replay"]


def test_the_working_folder_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"^\. is there already: name a folder in it"):
        import_episodes([right()], ".")


def test_two_imports_into_one_folder_do_not_mix(tmp_path):
    with Draft(tmp_path / "a.replay"), pytest.raises(InUseError, match="another process imports into"):
        import_episodes([right()], tmp_path / "a.replay")
    import_episodes([right()], tmp_path / "a.replay")


def test_a_killed_import_is_begun_anew_and_said(tmp_path):
    def dying():
        yield right()
        os.kill(os.getpid(), signal.SIGKILL)

    if not (child := os.fork()):
        import_episodes(dying(), tmp_path / "a.replay")
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with pytest.raises(UsageError):
        EpisodeSet(tmp_path / "a.replay")
    done = import_episodes([right(), right()], tmp_path / "a.replay")
    assert done.begins_anew and len(EpisodeSet(tmp_path / "a.replay")) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.replay"]


@pytest.mark.parametrize("limit", (0, 5_000, 70_000, 300_000))
def test_a_full_disk_leaves_no_folder(tmp_path, limit):
    """A limit on the size of files is an error of the same calls."""
    if not (child := os.fork()):
        code = 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            import_episodes(made_episodes(400, longest=60), tmp_path / "a.replay")
        except MachineError as error:
            code = 0 if "a.replay" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lengths", ([1], [1000] * 30, [3, 900, 2, 17] * 50, list(range(1, 400))))
def test_no_episode_lies_in_two_blocks(lengths):
    signature = given()
    steps, first = laid_out(lengths, signature)
    size = steps_of_block(signature, steps, max(lengths))
    ends = first + torch.tensor(lengths)
    assert (first // size == (ends - 1) // size).all() and (first[1:] >= ends[:-1]).all()
    assert int(ends[-1]) <= -(-steps // size) * size


def test_a_folder_is_read_without_the_right_to_write(tmp_path):
    """What is written to the rows by mistake is not in the file, either."""
    import_episodes([right()], tmp_path / "a.replay")
    rows = tmp_path / "a.replay" / "rows.replay"
    rows.chmod(0o444)
    before = rows.read_bytes()
    episodes = EpisodeSet(tmp_path / "a.replay")
    episodes.storage.rows.fields["reward"].fill_(9.0)
    assert rows.read_bytes() == before and len(EpisodeSet(tmp_path / "a.replay")) == 1
