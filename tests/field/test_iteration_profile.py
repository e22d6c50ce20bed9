"""Where the time of one iteration goes, beside floors."""

import sys
from contextlib import closing

import iteration_profile
import pytest
from iteration_profile import PARTS, Clocked, table

from gmi_drl.tasks import make


def test_both_precisions_are_told_and_drawn(monkeypatch, tmp_path):
    pytest.importorskip("mujoco")
    small = {"ROUNDS": 1, "WARM_UP": 1, "ITERATIONS": 1, "NUM_ENV": 8, "WIDE": 64, "COPIED": 1 << 10}
    for name, value in small.items():
        monkeypatch.setattr(iteration_profile, name, value)
    target = tmp_path / "told.txt"
    monkeypatch.setattr(sys, "argv", ["iteration_profile.py", str(target)])
    iteration_profile.main()
    head, *lines = target.read_text().splitlines()
    assert head.split()[4:] == ["float32", "floor", "bf16", "floor"] and len(lines) == len(PARTS) + 1
    physics, rest, acting = (line.split() for line in lines[:3])
    assert len(physics) == 3 and float(physics[1]) > 0 < float(rest[-1]), "without floors"
    assert len(acting) == 5 and target.with_suffix(".png").stat().st_size > 10_000


def test_a_replica_and_its_products_have_the_precision_that_is_told(monkeypatch):
    given = []
    monkeypatch.setattr(iteration_profile, "products", lambda *_, bf16: given.append(bf16))
    with closing(make("ball_balance", num_env=8)) as task:
        for bf16 in (False, True):
            replica = iteration_profile.replica_of(task, bf16)
            assert replica.learner.agent.policy.bf16 is bf16
            iteration_profile.products_of(replica, bf16)
    assert given == [False, True]


def test_the_table_has_milliseconds_of_all_parts_and_their_sum():
    parts = dict(zip(PARTS, (0.1, 0.02, 0.03, 0.2, 0.05), strict=True))
    lines = table({"float32": parts}, {"float32": {"acting": 0.004}}).splitlines()
    assert lines[1].split() == ["physics", "100.0"] and lines[3].split() == ["acting", "30.0", "4.0"]
    assert lines[-1].split() == ["all", "400.0"]


def test_seconds_of_calls_are_summed():
    called = []
    clocked = Clocked(called.append)
    clocked(1)
    first = clocked.seconds
    clocked(2)
    assert called == [1, 2] and 0 < first < clocked.seconds
