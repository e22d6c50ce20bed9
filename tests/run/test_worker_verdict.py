"""Which worker a run lacks."""

import pytest

from gmi_drl.run.verdict import verdict
from gmi_drl.run.worker_verdict import waits_of_rows

SERVED = ("answers_wait_s", "requests_wait_s", "versions_wait_s")


def row(rollouts=0.0, places=0.0, served=None, iteration=1):
    """An update of 10 s, a rollout of 10 s of playing beside what it waits for a place."""
    waits = {"rollouts_wait_s": rollouts, "wait_s": places, "fetch_s": 0.0}
    phases = {"sim_s": 6.0, "act_s": 4.0, "learn_s": 10.0 - rollouts, "sync_s": rollouts}
    return {"iteration": iteration, **waits, **phases, **(dict(zip(SERVED, served, strict=True)) if served else {})}


@pytest.mark.parametrize(
    ("told", "advice"),
    [
        (row(), "no kind of worker holds the others up"),
        (row(rollouts=5.0), "add an actor"),
        (row(places=10.0), "add a trainer"),
        (row(rollouts=5.0, places=10.0), "raise channels.max_lag, as actors and trainers take turns"),
        (row(rollouts=5.0, served=(4.0, 0.5, 0.5)), "add a policy worker"),
        (row(rollouts=5.0, served=(4.0, 3.0, 0.0)), "add an actor or raise ring"),
        (row(rollouts=5.0, served=(1.0, 8.0, 0.0)), "add an actor:"),
    ],
)
def test_the_worker_that_is_missing_is_named_first(told, advice):
    assert verdict([told]).startswith(advice)


def test_it_says_who_waits_how_much_and_for_what():
    rows = [row(rollouts=4.0, served=(2.0, 1.0, 0.0)), row(rollouts=6.0, served=(4.0, 2.0, 1.0), iteration=2)]
    told = "actors wait 0% for places and 30% for answers, policy workers 15% for requests and 5% for versions"
    assert verdict(rows).endswith(f"{told}, trainers 50% for rollouts")


def test_runs_without_channels_have_no_such_waits():
    assert waits_of_rows([{"iteration": 1, "sim_s": 1.0}]) is None and waits_of_rows([]) is None
