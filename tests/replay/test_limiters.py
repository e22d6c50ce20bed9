import math

import pytest

from gmi_drl.errors import UsageError
from gmi_drl.replay.limiters import Counters, MinSize, Queue, RateLimiter, SampleToInsertRatio, Stack


def counted(limiter, inserts=0, samples=0, deletes=0):
    limiter.counters = Counters(inserts, samples, deletes)
    return limiter


def test_batches_are_as_many_single_ones():
    """What is allowed of a batch is what single requests would get, one after the other."""
    limiter = SampleToInsertRatio(1.5, 4, (2.0, 9.0))
    for inserts in range(0, 12):
        for samples in range(0, 16):
            for deletes in range(0, min(3, inserts + 1)):
                for what, can, allowed in (
                    ("inserts", limiter.can_insert, limiter.inserts_allowed),
                    ("samples", limiter.can_sample, limiter.samples_allowed),
                ):
                    counted(limiter, inserts, samples, deletes)
                    at_once, one_by_one = allowed(7), 0
                    while one_by_one < 7 and can(1):
                        setattr(limiter.counters, what, getattr(limiter.counters, what) + 1)
                        one_by_one += 1
                    assert at_once == one_by_one, (what, inserts, samples, deletes)


def test_min_size_lets_every_insert_pass_and_samples_from_it_on():
    limiter = MinSize(3)
    assert limiter.inserts_allowed(10**9) == 10**9
    assert counted(limiter, inserts=2).samples_allowed(5) == 0
    assert counted(limiter, inserts=3).samples_allowed(5) == 5
    assert counted(limiter, inserts=3, deletes=1).samples_allowed(5) == 0
    assert "1 are missing" in limiter.why(1, "samples")


def test_deletes_lower_the_size_but_not_the_ratio():
    limiter = SampleToInsertRatio(1.0, 2, (0.0, 4.0))
    assert not counted(limiter, inserts=4).can_insert(1)
    assert not counted(limiter, inserts=4, deletes=2).can_insert(1)
    assert counted(limiter, inserts=4, deletes=3).can_insert(1)
    assert counted(limiter, inserts=4, samples=4, deletes=2).samples_allowed(1) == 0


@pytest.mark.parametrize("kind", [Queue, Stack])
def test_a_queue_takes_what_is_not_sampled_yet(kind):
    limiter = kind(3)
    assert limiter.inserts_allowed(5) == 3
    assert counted(limiter, inserts=3).inserts_allowed(1) == 0
    assert counted(limiter, inserts=3).samples_allowed(5) == 3
    assert counted(limiter, inserts=3, samples=2, deletes=2).inserts_allowed(5) == 2
    assert counted(limiter, inserts=3, samples=3, deletes=3).samples_allowed(1) == 0
    assert limiter.most_at_once == 3


def test_a_number_as_error_buffer_is_around_the_middle():
    limiter = SampleToInsertRatio(2.0, 10, 5.0)
    assert (limiter.min_diff, limiter.max_diff) == (15.0, 25.0)
    assert "past 25" in counted(limiter, inserts=12).why(2, "inserts")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: SampleToInsertRatio(0, 1, 5.0), "above 0"),
        (lambda: SampleToInsertRatio(math.nan, 1, 5.0), "above 0"),
        (lambda: SampleToInsertRatio(4.0, 10, 3.0), "8 at least"),
        (lambda: SampleToInsertRatio(1.0, 1, (5.0, 9.0)), "min_diff 5 is above spi x min_size = 1"),
        (lambda: MinSize(0), "min_size must be 1"),
        (lambda: Queue(0), "1 item"),
        (lambda: RateLimiter(3.0, 1, 0.0, 2.0), "widen"),
    ],
)
def test_what_can_only_deadlock_is_refused(make, told):
    with pytest.raises(UsageError, match=told):
        make()


def test_counters_come_back_and_reset():
    limiter = counted(MinSize(1), 5, 7, 2)
    again = MinSize(1)
    again.load_state_dict(limiter.state_dict())
    assert again.counters == limiter.counters
    assert again.counters.size == 3
    again.reset()
    assert again.counters == Counters()


@pytest.mark.parametrize("spi", [0.1, 0.3, 1 / 3, 1.1, 4.1])
def test_what_is_rounded_allows_the_last_item(spi):
    """Whoever waits for one item is then allowed one, and sums that meet a bound but for rounding are within."""
    limiter = SampleToInsertRatio(spi, 1, 2.0 * max(1.0, spi))
    for samples in range(200):
        counted(limiter, samples=samples)
        last = round((limiter.max_diff + samples) / spi, 6) // 1
        for inserts in range(max(1, int(last) - 2), int(last) + 2):
            counted(limiter, inserts, samples)
            assert limiter.can_insert(1) == (limiter.inserts_allowed(5) > 0) == (inserts + 1 <= last)
            assert limiter.can_sample(1) == (limiter.samples_allowed(5) > 0)
    assert counted(SampleToInsertRatio(0.1, 1, 1.0), inserts=80, samples=7).inserts_allowed(9) == 1
