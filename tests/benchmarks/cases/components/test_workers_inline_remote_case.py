"""The ways of inference of workers, each as a short training; what the plan's formula says of each."""

import pytest

from gmi_drl.benchmarks.cases import find_case
from gmi_drl.benchmarks.cases.common.worker_run import layout_of
from gmi_drl.benchmarks.cases.components.workers_inline_remote import WAYS, Way, predicted
from gmi_drl.scheduler.worker_rates import WorkerRates
from gmi_drl.templates import WORKERS

KNOWN = WorkerRates(num_env=16, step_s=0.01, answers={8: 1e-3, 16: 2e-3, 32: 4e-3}, update_s=1e-5, trip_s=1e-3)


@pytest.mark.starts_gmis
def test_a_ring_with_a_policy_worker_trains():
    with find_case("workers_inline_remote").open(True) as sides:
        remote = sides[str(Way(1, 2))]()
    assert remote.value > 0 and remote.details["rows"] >= 8 and remote.details["answer_p50_s"] > 0


def test_layouts_of_all_ways_are_valid():
    for way in WAYS:
        layout = layout_of("ant", 16, actors=2, policies=way.policies, ring=way.ring, wait_ms=way.wait_ms, cores=2)
        assert WORKERS.check(layout) == [], way
    alone = layout_of("ant", 16, actors=1, cores=2, max_lag=0)
    assert not alone.share_cores and alone.channels.max_lag == 0 and alone.streams is None


def test_predictions_are_of_cores_that_workers_share():
    assert predicted(Way(), KNOWN) == pytest.approx(16 / 0.012)
    assert predicted(Way(1, 1), KNOWN) == pytest.approx(32 / 0.02)  # two actors of a core hide each other's waiting
    slow = KNOWN.model_copy(update={"answers": {16: 0.02, 32: 0.04}})
    assert predicted(Way(1, 1), slow) == pytest.approx(32 / 0.051)
    assert predicted(Way(1, 4), slow) == pytest.approx(1 / (0.04 / 32 + 1e-5), rel=0.5)
