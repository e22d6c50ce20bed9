import pytest

from gmi_drl.errors import UsageError
from tests.comm.channels.rollouts_told import FORM, RECORDS, sizes_of


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
