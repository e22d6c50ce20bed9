"""A rank that ends or is stopped is named on all others; nothing hangs."""

from tests.replay.shards import random_deaths


def test_a_lost_rank_is_named_on_all_others(capsys):
    """Of these dozen one is stopped, which takes `hang_s` and the seconds to answer; all calls are there."""
    random_deaths.main(12, 226, 1.0)
    assert capsys.readouterr().out == "12 of 12 rounds: the lost rank was named on all others\n"
