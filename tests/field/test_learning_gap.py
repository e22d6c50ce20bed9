import json

import learning_gap
import torch
from learning_gap import SIDES, THEIRS

from gmi_drl.algo.networks import ActorCritic
from gmi_drl.workload import TASK_SPECS


def test_pytorchs_weights_take_the_place_of_ours_within_the_flat_vector():
    policy = ActorCritic(TASK_SPECS["ant"])
    flat = torch.cat([parameter.flatten() for parameter in policy.parameters()])
    place = policy.actor[0].weight.data_ptr()
    learning_gap.in_place(policy.actor[0])
    assert policy.actor[0].weight.data_ptr() == place
    assert not torch.equal(torch.cat([parameter.flatten() for parameter in policy.parameters()]), flat)


def test_halves_give_each_mini_batch_as_many_transitions_of_each_half_of_the_worlds():
    learner = object.__new__(learning_gap.learner_with_halves())
    learner.generator = torch.Generator().manual_seed(1)

    class Rollout:
        transitions = 16 * learning_gap.NUM_ENV

    order = learner.shuffled(Rollout())
    assert torch.equal(order.sort().values, torch.arange(Rollout.transitions))
    is_first = order % learning_gap.NUM_ENV < learning_gap.NUM_ENV // 2
    assert all(part.float().mean() == 0.5 for part in is_first.split(1024))


def test_both_programs_train_and_say_what_late_episodes_returned(monkeypatch):
    monkeypatch.setattr(learning_gap, "STEPS", 10 * 16 * 64)
    monkeypatch.setattr(learning_gap, "NUM_ENV", 64)
    monkeypatch.setattr(learning_gap, "LATE", 1.0)
    threads = torch.get_num_threads()
    try:
        ended = [learning_gap.train("ant", side, 7) for side in SIDES]
    finally:
        torch.set_num_threads(threads)
    assert [run["side"] for run in ended] == list(SIDES) and THEIRS in SIDES
    assert all(len(run["returns"]) == 10 for run in ended)
    values = [run["late_return"] for run in ended]
    assert len(set(values)) == len(values)  # no side is another one by a mistake


def test_runs_are_read_as_they_were_written(tmp_path, monkeypatch):
    monkeypatch.setattr(learning_gap, "RESULTS", tmp_path)
    (tmp_path / "ant.jsonl").write_text(json.dumps({"side": THEIRS, "seed": 101, "late_return": 1.0}) + "\n")
    assert [run["seed"] for run in learning_gap.runs("ant")] == [101]
    assert learning_gap.runs("humanoid") == []
