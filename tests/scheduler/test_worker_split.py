"""Cores are divided among actors, policy workers and trainers by the rates of each."""

import pytest

from gmi_drl.scheduler.worker_rates import WorkerRates
from gmi_drl.scheduler.worker_split import worker_splits


def rates(step_s=0.01, answer=(0.001, 0.001, 0.001), update_s=1e-5, trip_s=1e-4, **more):
    answers = dict(zip((4, 8, 16), answer, strict=True))
    return WorkerRates(num_env=8, step_s=step_s, answers=answers, update_s=update_s, trip_s=trip_s, **more)


def test_answers_between_two_sizes_are_on_the_line_and_beyond_in_proportion():
    told = rates(answer=(1.0, 3.0, 4.0))
    assert [told.answer_s(rows) for rows in (2, 4, 6, 8, 12, 16, 32)] == [1.0, 1.0, 2.0, 3.0, 3.5, 4.0, 8.0]


def test_two_cores_have_one_division_and_each_core_one_worker():
    (only,) = worker_splits(rates(), 2)
    assert (only.actors, only.policies, only.trainers) == (1, 0, 1)
    assert only.produced == pytest.approx(8 / 0.011) and only.learnt == pytest.approx(1e5)
    for cores in (3, 8):
        splits = worker_splits(rates(), cores)
        assert all(one.actors + one.policies + one.trainers == cores for one in splits)
        assert [one.expected for one in splits] == sorted((one.expected for one in splits), reverse=True)


def test_slow_simulators_get_most_cores_and_slow_learning_gets_trainers():
    assert worker_splits(rates(step_s=0.1), 8)[0].trainers == 1
    assert worker_splits(rates(step_s=1e-4, answer=(1e-5,) * 3, update_s=1e-3), 8)[0].trainers > 4


def test_a_ring_hides_waiting():
    """Two members: while one waits for an answer as long as a step, the other steps."""
    slow = rates(step_s=0.01, answer=(0.005, 0.005, 0.005), trip_s=0.0)
    of = {(one.ring, one.policies): one for one in worker_splits(slow, 3)}
    assert of[2, 1].produced == pytest.approx(8 / 0.01) and of[1, 1].produced == pytest.approx(8 / 0.015)
    assert "rings of 2 and 1 policy worker" in of[2, 1].described


def test_a_policy_worker_answers_no_faster_than_it_can():
    slow = rates(step_s=1e-4, answer=(0.01, 0.01, 0.02))
    best = max(
        (one for one in worker_splits(slow, 4) if one.policies == 1 and one.actors == 2), key=lambda one: one.expected
    )
    assert best.produced <= 16 / 0.02 + 1e-9


def test_worlds_of_several_agents_stay_in_one_member():
    assert {one.ring for one in worker_splits(rates(agents=8), 4)} == {1}
