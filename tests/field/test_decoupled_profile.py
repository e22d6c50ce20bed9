"""Where the time of both sides of a decoupled iteration goes."""

import cProfile
import sys

import decoupled_profile
import pytest
from profile_parts import parts_of, table


def test_both_sides_of_a_task_are_told(monkeypatch, tmp_path):
    for name, small in {"ROUNDS": 1, "WARM_UP": 1, "NUM_ENV": 8}.items():
        monkeypatch.setattr(decoupled_profile, name, small)
    target = tmp_path / "told.txt"
    monkeypatch.setattr(sys, "argv", ["decoupled_profile.py", "ball_balance", str(target)])
    decoupled_profile.main()
    head, *lines = target.read_text().splitlines()
    names = ["ball_balance, agent", "ball_balance, trainer", "ball_balance, trainer by autograd"]
    assert len(lines) == 3 and all(line.startswith(name) for line, name in zip(lines, names, strict=True))
    columns = head.split("iteration")[1].split()
    values = (line[len(name) :].split() for name, line in zip(names, lines, strict=True))
    told = {name: dict(zip(columns, row, strict=True)) for name, row in zip(names, values, strict=True)}
    assert float(told[names[0]]["physics"]) > 0 and float(told[names[0]]["autograd"]) == 0
    assert float(told[names[1]]["autograd"]) == 0 < float(told[names[2]]["autograd"])


def test_what_belongs_to_no_part_is_the_rest():
    with cProfile.Profile() as profile:
        [sorted(range(2000)) for _ in range(50)]
    told = parts_of(profile, {"sorting": ("sorted",), "other": ("nothing",)}, 50)
    assert told["sorting"] > 0 == told["other"] and set(told) == {"sorting", "other", "rest"}
    head, line = table("us of one", {"these": told}).splitlines()
    assert head.split()[3:] == ["sorting", "other", "rest", "all"]
    assert float(line.split()[-1]) == pytest.approx(1e6 * sum(told.values()), abs=1)
