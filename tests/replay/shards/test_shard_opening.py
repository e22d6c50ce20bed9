"""Ranks that open shards: what must be the same on all, and what must not."""

import pytest

from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.shards import open_shards
from tests.replay.shards.shard_ranks import SIGNATURE, together, trajectories


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"trajectories": 3}, "rank 1 opens shards of 3 trajectories of 4 steps"),
        ({"steps": 5}, "of 8 trajectories of 5 steps"),
        ({"seed": 1}, "seed 1"),
        ({"heads": [1]}, "heads [1]"),
        ({"sync_every": 2}, "sync_every 2"),
    ],
)
def test_ranks_that_open_other_shards(options, says):
    said = refused_at_opening(lambda rank: options if rank else {})
    assert says in said
    assert "rank 0 opens shards of 8 trajectories of 4 steps, heads [0, 1], seed 0" in said


def refused_at_opening(options):
    """What two ranks are refused with that open shards with `options(rank)`, the same on both."""

    def live(link):
        given = {"signature": SIGNATURE, "trajectories": 8, "steps": 4, "placement": "cpu"} | options(link.rank)
        with pytest.raises(UsageError) as caught:
            open_shards(link, given.pop("signature"), **given)
        return str(caught.value)

    (said,) = set(together(2, live))
    return said


def test_of_a_long_signature_the_field_that_differs_is_named():
    def options(rank):
        return {"signature": Signature([*(Field(f"part {n}") for n in range(40)), Field("last", (2 + rank,))])}

    said = refused_at_opening(options)
    assert said == (
        "rank 1 opens shards of another signature than rank 0: last is float32[3] in step, not float32[2] in step"
    )


@pytest.mark.parametrize("is_there", [False, True])
def test_ranks_with_the_same_file(tmp_path, is_there):
    file, link = tmp_path / "rows.replay", tmp_path / "link"
    link.symlink_to(tmp_path)
    if is_there:
        file.touch()
    options = [{"placement": "file", "path": path} for path in (file, link / "rows.replay")]
    said = refused_at_opening(lambda rank: options[rank])
    assert said == f"ranks 0 and 1 open the same file, {link}/rows.replay: give each rank one of its own, such as " + (
        "shard-1.replay"
    )
    assert file.exists() == is_there


def test_ranks_with_files_of_their_own_which_are_opened_again(tmp_path):
    def live(link):
        settings = {"trajectories": 2, "steps": 4, "placement": "file", "path": tmp_path / f"{link.rank}.replay"}
        shards = open_shards(link, SIGNATURE, **settings)
        shards.insert(trajectories([link.rank]))
        return shards.collect([0, 2])[0]["tag"][:, 0].tolist()

    assert [together(2, live) for _ in range(2)] == [[[0, 100]] * 2] * 2
