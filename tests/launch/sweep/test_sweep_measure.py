import os
from contextlib import nullcontext

import pytest

from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import VisibleGpu
from gmi_drl.launch.signals import Stage, StopRequest
from gmi_drl.launch.sweep import measure as measuring
from gmi_drl.launch.sweep import memory as memories
from gmi_drl.launch.sweep.measure import measure, soonest
from gmi_drl.launch.sweep.memory import Memory
from gmi_drl.launch.sweep.slots import make_slots
from gmi_drl.launch.sweep.sweep_file import Sweep, make_trials
from gmi_drl.units import GIB


def measured(monkeypatch, tmp_path, most):
    """Speeds and lines of a machine on which more than `most` trainings at once fail."""

    def probe(folder, sweep, slots, request, memory):
        if len(slots) > most:
            raise GmiError("out of memory")
        return 100.0 * len(slots)

    monkeypatch.setattr(measuring, "_measure", probe)
    sweep, told = Sweep(trials=make_trials(range(4), {})), []
    speeds = measure(
        tmp_path,
        sweep,
        [1, 2, 4],
        lambda number: make_slots(number, [0], []),
        lambda slots: nullcontext(),
        StopRequest(Stage.RUNNING),
        told.append,
    )
    return speeds, told


def test_trainings_that_fail_side_by_side_end_the_measurement(monkeypatch, tmp_path):
    speeds, told = measured(monkeypatch, tmp_path, most=2)
    assert speeds == {1: 100.0, 2: 200.0}
    assert told[-1] == "4 at once: this machine has not enough for them: out of memory"
    with pytest.raises(GmiError, match="out of memory"):
        measured(monkeypatch, tmp_path, most=0)


def test_trainings_that_tell_no_speed_are_not_the_soonest():
    assert soonest({1: 0.0, 2: 5.0}, 4) == 2 and soonest({1: 0.0, 2: 0.0}, 4) == 1


def test_the_memory_of_gpus_limits_how_many_share_one(monkeypatch):
    gpus = [VisibleGpu("H100", uuid, memory_gib=10.0, used_bytes=GIB, driver="1") for uuid in ("a", "b")]
    monkeypatch.setattr(memories, "visible_gpus", lambda: gpus)
    memory = Memory()
    monkeypatch.setattr(memories, "visible_gpus", lambda: [gpus[0]._replace(used_bytes=9 * GIB), gpus[1]])
    memory.look([os.getpid()] * 4)  # two on each GPU
    assert memory.lack(4) == ""
    assert memory.lack(5) == "12.0 GiB of a GPU, which has 9.0 GiB"


def test_the_memory_of_the_host_limits_how_many_there_are(monkeypatch):
    memory = Memory()
    assert memory.lack(10**9) == "", "nothing is known yet"
    memory.look([os.getpid()])
    assert memory.lack(1) == "" and memory.lack(10**9).endswith("of memory")
