import json

import off_policy
import pytest
from off_policy import OURS, SIDES, THEIRS, VARIANTS, described, learn, tell

from gmi_drl.benchmarks.cases.peers.off_policy import DUELS


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(off_policy, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def a_run(side, seed, rate, value, steps=100):
    returns = dict.fromkeys(("return", "late_return", "best_return"), value)
    return {"side": side, "seed": seed, "steps": steps, "rate": rate, **returns}


def test_what_was_measured_is_not_measured_again(results, monkeypatch):
    results.mkdir()
    (results / "dqn_cartpole.jsonl").write_text(json.dumps(a_run(OURS, 1, 10.0, 500.0)) + "\n")
    started = []

    class Done:
        def __init__(self, side, seed):
            self.stdout = json.dumps(a_run(side, seed, 5.0, 400.0)) + "\n"

    def run(command, **_):
        started.append(tuple(command[4:6]))
        return Done(command[4], int(command[5]))

    monkeypatch.setattr(off_policy.subprocess, "run", run)
    learn("dqn_cartpole", [OURS, THEIRS], 2, 100)
    assert started == [(THEIRS, "1"), (OURS, "2"), (THEIRS, "2")]
    learn("dqn_cartpole", [OURS, THEIRS], 2, 100)
    assert len(started) == 3
    learn("dqn_cartpole", [OURS], 1, 200)
    assert len(started) == 4, "other steps are another training"


def test_ratios_are_told(results, capsys):
    ours, theirs = (
        [a_run(side, n, rate + n, 100.0 * rate) for n in range(3)] for side, rate in ((OURS, 20), (THEIRS, 10))
    )
    assert "1.91x" in described(ours, theirs) and "2.00x (2.00 to 2.00), p 0.10" in described(ours, theirs)
    losses = [a_run(THEIRS, n, 10 + n, -1.0) for n in range(3)]
    assert described(ours, losses).count("x (") == 1, "a negative return has no ratio, rates have"
    results.mkdir()
    (results / "dqn_cartpole.jsonl").write_text("".join(json.dumps(run) + "\n" for run in ours + theirs))
    tell()
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        f"dqn_cartpole, 100 steps, {side}" for side in (OURS, THEIRS)
    ]


def test_on_cart_pole_both_sides_have_the_same_algorithm():
    learner = DUELS["dqn_cartpole"].config(1000, 1).learner
    assert not learner.double and not learner.dueling and learner.replay.next_obs == "twice"


@pytest.mark.parametrize("side", sorted(VARIANTS))
def test_sides_are_settings_of_ours(side):
    from dataclasses import replace

    config = replace(DUELS["dqn_cartpole"], replay=VARIANTS[side]).config(1000, 1)
    assert config.learner.replay.sampler == VARIANTS[side].get("sampler", "uniform")
    assert config.learner.replay.n_step == VARIANTS[side].get("n_step", 1) and side in SIDES
