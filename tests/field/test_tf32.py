"""What TF32 is worth is asked on a GPU; here how it is asked."""

import stages
from scripts import run


def test_both_ways_are_measured_by_turns():
    ended = run("tf32", "ball_balance", 8, "--seconds", 0.1)
    assert ended.returncode == 0, ended.stderr
    saw, rest = stages.facts(ended.stdout)
    assert list(saw) == [f"ball_balance {way} {turn}" for turn in (1, 2, 3) for way in ("float32", "tf32")]
    assert all(one["learn_s"] > 0 and one["steps_per_second"] > 0 for one in saw.values())
    assert rest == []
