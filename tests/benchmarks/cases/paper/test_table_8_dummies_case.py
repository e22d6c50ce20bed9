import os
import time

import pytest
from conftest import children_of, two_cores

from gmi_drl.benchmarks.cases import find_case
from gmi_drl.benchmarks.cases.paper import table_8_dummies
from gmi_drl.benchmarks.cases.paper.table_8_agents import Dummies, Rates
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector


@two_cores
@pytest.mark.parametrize("name", ["table_8_most_anymal", "table_8_most_franka_cabinet"])
def test_both_modes_send_the_same_in_messages_of_their_own(monkeypatch, name):
    monkeypatch.setattr(table_8_dummies, "QUICK_PART", 0.02)
    case = find_case(name)
    affinity = os.sched_getaffinity(0)
    result = run_case(case, repeats=1, quick=True)
    for mode, messages in ("MCC", 11), ("UCC", 16 * 7 + 4):
        (sample,) = result.samples[mode]
        of_rollout = sample.details["messages_per_second"] / sample.value * 128 * 16
        assert of_rollout == pytest.approx(messages)
    assert not children_of(os.getpid()) and os.sched_getaffinity(0) == affinity


@two_cores
@pytest.mark.parametrize(("predictions", "samples"), [(400.0, None), (None, 400.0), (800.0, 400.0)])
def test_dummies_are_never_faster_than_what_they_stand_for(predictions, samples):
    rates = Rates(2, RolloutForm(2, 10, vector(3), continuous(1)), predictions, samples, 5)
    began = time.perf_counter()
    dummies = Dummies(rates, "MCC", allowed_cores()[1])
    try:
        updates = dummies.learn(0.6)
        # From the very start: what was buffered before a later one would make up for a pause.
        assert 0 < updates * rates.samples_of_update / (time.perf_counter() - began) <= 400
        assert dummies.measure(0.0, 0.1).value > 0
    finally:
        dummies.close()


def test_an_update_takes_a_step_of_all_agents_and_as_long_as_the_papers():
    rates = table_8_dummies.rates_of("anymal", "ttop")
    assert rates.step_s == pytest.approx(4 * 128 / 180_001)
    assert rates.learn_s == pytest.approx(4 * 128 * 16 / 122_676)
    assert table_8_dummies.rates_of("anymal", "pps").learn_s == 0
    assert table_8_dummies.rates_of("anymal", "most").step_s == 0
