"""What plans of agents and trainers apart are chosen from."""

import pytest

from gmi_drl.config import RunConfig
from gmi_drl.cut import Cut
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware import Cpu, CpuDevices, Node
from gmi_drl.learners import A3CConfig
from gmi_drl.profile import ProfilePoint
from gmi_drl.profiler.both_sides import _with_room
from gmi_drl.scheduler.division import divisions
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]


def ways_in(memory_gib, horizon=8):
    """The environments of what is left to choose from."""
    node = Node(name="n", cpus=CpuDevices(cores_each=2, count=1), cpu=Cpu(cores=2, memory_gib=memory_gib))
    rows = [{"num_env": num_env, "memory_bytes": 2**29} for num_env in (64, 8192)]
    acting = [ProfilePoint(gmis_per_gpu=2, runnable=True, steps_per_second=1000.0, **row) for row in rows]
    ways = divisions(node, acting, {point.cut: 1e6 for point in acting}, horizon)
    left = _with_room(ways, acting, ANT, RunConfig(learner=A3CConfig(horizon=horizon)), node)
    return [way.cut for way in left]


def test_what_has_room_is_left_with_its_channels():
    assert ways_in(2) == [Cut(2, 64), Cut(2, 8192)]
    assert ways_in(2, horizon=256) == [Cut(2, 64)], "three batches of 8192 worlds and 256 steps are 1.7 GiB"


def test_what_has_no_room_at_all_is_no_plan():
    told = (
        r"1 agent x 64 env.*, but 2 GMIs and 0\.0 GiB of channels would take 1\.0 GiB of the host's 1\.0 GiB: .*max_lag"
    )
    with pytest.raises(NoFeasiblePlanError, match=told):
        ways_in(1)
