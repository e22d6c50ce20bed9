import os

import pytest
from conftest import children_of, two_cores

from gmi_drl.benchmarks.cases.components import channels
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector


@two_cores
def test_every_way_takes_all_experience_in_its_messages(monkeypatch):
    monkeypatch.setattr(channels, "NUM_ENV", 8)
    monkeypatch.setattr(channels, "QUICK_BATCHES", 2)
    monkeypatch.setattr(channels, "QUICK_MEMORY_BYTES", 2**16)
    case = next(case for case in channels.CASES if case.name == "channels_franka_cabinet")
    affinity = os.sched_getaffinity(0)
    result = run_case(case, repeats=1, quick=True)
    steps, whole = 16 * 7 + 4, 11
    messages = {"MCC": whole, "UCC": steps, channels.STEPS: steps, channels.ROLLOUTS: whole, channels.COPY: 1}
    messages[channels.MEMORY] = 1
    assert list(result.samples) == list(messages)
    nbytes = RolloutForm(16, 8, vector(23), continuous(9)).nbytes
    for name, (sample,) in result.samples.items():
        assert sample.value * 1e6 * sample.details["rollout_s"] == pytest.approx(nbytes)
        of_rollout = sample.details["messages_per_second"] * sample.details["rollout_s"]
        assert of_rollout == pytest.approx(messages[name])
    assert not children_of(os.getpid()) and os.sched_getaffinity(0) == affinity
