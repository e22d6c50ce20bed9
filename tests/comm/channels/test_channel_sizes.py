import itertools

import pytest

from gmi_drl.comm.channels import ChannelSizes
from gmi_drl.errors import UsageError
from tests.comm.channels.traced_rollouts import FORM, RECORDS, sizes_of


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rollouts": 0}, "one at least, not 0"),
        ({"agents": ()}, "one at least"),
        ({"trainers": ()}, "one at least"),
        ({"agents": (1, 2), "trainers": (0, 2)}, r"each once: agents \(1, 2\) and trainers \(0, 2\)"),
        ({"agents": (1, 1)}, "each once"),
    ],
)
def test_what_cannot_be_is_refused(wrong, words):
    with pytest.raises(UsageError, match=words):
        sizes_of(**wrong)


def test_the_lag_sets_the_places():
    assert [sizes_of(rollouts=3, max_lag=lag).places for lag in (0, 1, 8)] == [3, 6, 27]


def test_a_transfer_is_as_many_steps_as_fill_it():
    kinds = {kind.name: kind for kind in FORM.kinds}

    def steps(kind, **channels):
        return sizes_of(**channels).steps_of_transfer(kinds[kind])

    assert [steps("obs", transfer_bytes=size) for size in (1, 79, 80, 119, 120, 2**20)] == [1, 1, 2, 2, 3, 3]
    assert [steps("reward", transfer_bytes=size) for size in (1, 16, 24)] == [1, 2, 3]
    assert steps("facts", transfer_bytes=1) == steps("facts") == 1
    assert steps("obs", mode="UCC") == steps("reward", mode="UCC") == 1


@pytest.mark.parametrize("mode", ["MCC", "UCC"])
def test_a_queue_holds_twice_an_agents_share_in_either_mode(mode):
    assert sizes_of(rollouts=3, max_lag=1, mode=mode).ring_records == 6 * RECORDS[mode]
    assert sizes_of(rollouts=3, max_lag=1, mode=mode, agents=(1, 2, 3, 4)).ring_records == 4 * RECORDS[mode]


def test_sizes_that_differ_are_named():
    one, other = sizes_of(rollouts=3), sizes_of(rollouts=2, mode="UCC")
    assert one.difference(sizes_of(rollouts=3).text) is None
    assert one.difference(other.text) == "rollouts 2 and 3, mode UCC and MCC"


def test_sizes_are_read_from_their_text():
    sizes = sizes_of(rollouts=3, agents=(1, 4), trainers=(0, 2), mode="UCC", max_lag=5)
    assert ChannelSizes.from_text(sizes.text) == sizes
    for wrong in (
        "",
        "[]",
        "{}",
        "3",
        "[" * 100_000,
        sizes.text.replace("UCC", "XYZ"),
        sizes.text.replace('"rollouts": 3', '"rollouts": 0'),
    ):
        with pytest.raises(UsageError):
            ChannelSizes.from_text(wrong)


@pytest.mark.parametrize("rollouts", [1, 3])
def test_the_spans_of_all_steps_are_side_by_side(rollouts):
    sizes = sizes_of(rollouts=rollouts)
    for kind, one in enumerate(FORM.kinds):
        steps = sizes.steps_of(one)
        spans = [sizes.span(kind, row, step, step + 1) for row in range(rollouts) for step in range(steps)]
        assert spans[0].start == sizes.offsets[kind] and spans[-1].stop == spans[0].start + rollouts * one.nbytes
        assert all(span.stop == after.start for span, after in itertools.pairwise(spans))
