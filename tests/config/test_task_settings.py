import pytest

from gmi_drl.config import task_settings
from gmi_drl.config.run_config import WarpRoom
from gmi_drl.config.task_names import find_task
from gmi_drl.config.task_settings import check_settings, simulates_on_gpu
from gmi_drl.errors import UsageError
from gmi_drl.tasks import TASKS
from gmi_drl.workload import MUJOCO_SPECS

USUAL = {"on_gpu": False, "physics": None, "room": WarpRoom(), "tells_terms": False}
ROOM = {"room": WarpRoom(njmax=100)}
OURS, AS_STEPPED, FOREIGN = "ant", "mujoco:Ant-v5", "gymnasium:Ant-v5"


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        *((task, {}) for task in (OURS, AS_STEPPED, FOREIGN)),
        *((task, {"physics": "native", "tells_terms": True}) for task in (OURS, AS_STEPPED)),
        (OURS, {"physics": "warp"} | ROOM),
    ],
)
def test_what_a_simulator_does_is_taken(task, settings):
    check_settings(find_task(task), **USUAL | settings)


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        (OURS, ROOM, "the physics here is native"),
        (OURS, {"physics": "native"} | ROOM, "the physics here is native"),
        (AS_STEPPED, {"physics": "warp"}, "leave physics and warp out"),
        (AS_STEPPED, ROOM, "leave physics and warp out"),
        (FOREIGN, {"physics": "native"}, "brings its own simulator"),
        (FOREIGN, ROOM, "brings its own simulator"),
        (FOREIGN, {"tells_terms": True}, "does not report terms of its reward"),
    ],
)
def test_what_it_cannot_do_is_refused(task, settings, message):
    with pytest.raises(UsageError, match=message):
        check_settings(find_task(task), **USUAL | settings)


def test_room_is_for_the_warp_that_a_gpu_has(monkeypatch):
    monkeypatch.setattr(task_settings, "usual_physics", lambda on_gpu: "warp" if on_gpu else "native")
    check_settings(find_task(OURS), **USUAL | ROOM | {"on_gpu": True})
    with pytest.raises(UsageError, match="physics here is native"):
        check_settings(find_task(OURS), **USUAL | ROOM | {"on_gpu": True, "physics": "native"})


def test_which_tasks_are_read_as_stepped_is_known_without_them():
    assert {name for name, definition in TASKS.items() if definition.as_stepped} == set(MUJOCO_SPECS)


def test_ours_by_warp_and_libraries_for_gpus_simulate_on_one(monkeypatch):
    assert simulates_on_gpu(OURS, "warp") and not simulates_on_gpu(OURS, "native")
    for physics in ("warp", "native"):
        monkeypatch.setattr(task_settings, "usual_physics", lambda on_gpu, physics=physics: physics)
        assert simulates_on_gpu(OURS, None) is (physics == "warp")
    assert simulates_on_gpu("mjlab:Mjlab-Velocity-Flat-Unitree-Go1", None)
    assert not simulates_on_gpu(FOREIGN, None) and not simulates_on_gpu(AS_STEPPED, None)
