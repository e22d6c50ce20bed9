import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import started, tiny_config, tiny_layout
from toys import install_backend

from gmi_drl.errors import GmiError, LayoutMismatchError, MachineError
from gmi_drl.gmi import claimed
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.hardware.speeds import OF_CORES
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler import points
from gmi_drl.profiler.budget import START_S, Budget
from gmi_drl.profiler.cache import Cache
from gmi_drl.profiler.measured_plan import explore
from gmi_drl.profiler.points import PointMeasurer
from gmi_drl.profiler.session import Measured, Session
from gmi_drl.roles.probes.probe import relative_error
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.scheduler import grid_of, search_grid
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
PROBES = f"{Path(__file__).parent}/probes.py"
BROKEN, STILLBORN = f"{PROBES}:Broken", f"{PROBES}:Stillborn"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(points, "MEASURE_S", 0.05)


def measurer(seconds=math.inf, node=None, grid=(), task=ANT, **more):
    node = node or this_node()
    config = tiny_config()
    return PointMeasurer(task, config, node, Cache(task, config, node), grid, Budget(seconds), **more)


def test_one_start_measures_many_points_and_remembers_them(monkeypatch):
    sessions, start = [], Session.start
    monkeypatch.setattr(Session, "start", lambda self, claim: sessions.append(self) or start(self, claim))
    with closing(measurer()) as measure:
        measured = [measure(Cut(1, num_env)) for num_env in (4, 8)]
        assert measure(Cut(1, 4)) is measured[0]
    assert len(sessions) == 1 and [point.num_env for point in measure.points] == [4, 8]
    assert all(point.runnable and point.steps_per_second > 0 and point.phases for point in measured)
    with closing(measurer(seconds=0)) as again:
        assert again(Cut(1, 8)) == measured[1] and again(Cut(1, 16)) is None
    assert list(again.unmeasured) == [Cut(1, 16)]


@pytest.mark.parametrize(("gpus", "reduction"), [(1, "IPC"), (2, "MPR-shm")])
def test_gmis_of_a_gpu_are_measured_by_the_reduction_of_all_that_will_train(gpus, reduction):
    node = Node(name="n", gpus={"model": "X", "count": gpus}, cpu=Cpu(cores=8, memory_gib=80))
    (device,) = (layout := measurer(node=node)._layout(Cut(2, 64))).devices
    assert len(device.gmis) == 2 and layout.groups["trainers"].reduction == reduction


def test_a_point_is_of_the_model_of_the_first_gpu_in_use(monkeypatch):
    models = (Gpus(model="A30", count=1), Gpus(model="L4", count=2))
    measure = measurer(node=Node(name="n", gpus=models, used=(1, 2), cpu=Cpu(cores=8, memory_gib=80)))
    cut, phases = Cut(1, 8), dict.fromkeys(PHASE_NAMES, 0.01)
    measured = Measured(8, 2, 0.1, 80.0, 0.0, 10**6, 10**6, phases)
    session = SimpleNamespace(layout=measure._layout(cut), measure=lambda *_, **__: measured)
    monkeypatch.setattr(PointMeasurer, "_session_of", lambda self, cut: session)
    assert session.layout.devices[0].index == 1 and measure._run(cut, 1.0).model == "L4"


def test_what_was_measured_by_another_reduction_is_not_remembered(monkeypatch):
    node = Node(name="n", gpus={"model": "X", "count": 1}, cpu=Cpu(cores=8, memory_gib=80))
    point = known(8).model_copy(update={"gmis_per_gpu": 2, "reduction": "IPC"})
    measurer(node=node).cache.add(point)
    assert measurer(seconds=0, node=node)(point.cut) == point
    now = measurer(seconds=0, node=node, grid=[point.cut], speeds=lambda *_: {"process": OF_CORES})
    assert now(point.cut) is None, "MPR-shm is taken now"


def test_a_start_is_expected_to_cost_what_the_last_one_took():
    measure = measurer(seconds=1000)
    assert measure._expected_s(Cut(1, 4)) == START_S + measure.pace.expected_s()
    with closing(measure):
        measure(Cut(1, 4))
        assert measure.pace.start_s not in (0, START_S)
        assert measure._expected_s(Cut(1, 4)) < measure._expected_s(Cut(1, 4, "toy"))


def test_walks_of_which_each_is_useful_share_the_budget_and_the_last_get_nothing(monkeypatch):
    node = Node(name="n", gpus={"model": "X", "count": 1}, cpu=Cpu(cores=10, memory_gib=80))
    now, per_point = 1000.0, 3.0
    monkeypatch.setattr("gmi_drl.profiler.budget.time.monotonic", lambda: now)

    def run(measure, cut, expected_s):
        nonlocal now
        now += per_point
        more = {"gmis_per_gpu": cut.gmis_per_gpu, "steps_per_second": 1000.0 * cut.num_env}
        return known(cut.num_env).model_copy(update=more)

    monkeypatch.setattr(PointMeasurer, "_run", run)
    grid = search_grid(node, 16)
    measure = measurer(seconds=98, node=node, grid=grid)
    measure.pace.measure_s, measure.pace.start_s, measure.pace.walk_s = 0.5, 0.0, 24.0  # whatever the others are told
    measure.pace.beside_s = 2.5
    for cut in grid:
        measure(cut)
    sizes = [point.gmis_per_gpu for point in measure.points]
    assert [sizes.count(size) for size in (1, 2, 4, 8)] == [8, 8, 8, 8]
    assert set(sizes) == {1, 2, 4, 8} and {cut.gmis_per_gpu for cut in measure.unmeasured} == {3, 5, 6, 7, 9, 10}


def test_where_cores_enforce_the_share_one_gmi_is_run():
    layout = measurer(node=Node(name="n", cpu=Cpu(cores=4, memory_gib=8)))._layout(Cut(2, 4))
    assert [gmi.cores for gmi in layout.gmis] == [(0, 1)] and layout.groups["trainers"].reduction == "none"


def test_where_nothing_enforces_it_all_gmis_of_a_device_are_run():
    node = Node(name="n", gpus={"model": "X", "count": 2}, cpu=Cpu(cores=8, memory_gib=8))
    layout = measurer(node=node)._layout(Cut(2, 4))
    assert len(layout.gmis) == 2 and len(layout.devices) == 1 and layout.groups["trainers"].reduction == "MPR-shm"


def test_what_fails_or_dies_is_not_runnable_and_not_remembered(monkeypatch):
    monkeypatch.setattr(points, "Session", lambda layout, config: Session(layout, config, role=BROKEN))
    with closing(measurer()) as measure:
        assert "no room for 16" in measure(Cut(1, 16)).reason and "exited with code 9" in measure(Cut(1, 32)).reason
        assert measure(Cut(1, 8)).runnable  # in a process of its own again
        assert measure(Cut(1, 16)) in measure.points and len(measure.points) == 3, "what has failed is not tried again"
    assert [point.num_env for point in measure.cache.profile.points] == [8]


def test_a_point_that_fails_hides_no_larger_one(monkeypatch):
    monkeypatch.setattr(points, "Session", lambda layout, config: Session(layout, config, role=BROKEN))
    found = explore(ANT, tiny_config(), this_node(), grid_of({1: [8, 16, 24]}), Budget(math.inf))
    assert {point.num_env: point.runnable for point in found.profile.points} == {8: True, 16: False, 24: True}


def test_the_noise_of_a_probe_lies_in_its_point():
    with started(Session(measurer()._layout(Cut(1, 4)), tiny_config())) as session:
        one, many = session.measure(4, 0.0), session.measure(4, 1.0)
    assert one.iterations == 1 and one.relative_error == 0, "one iteration tells no noise"
    assert (many.relative_error > 0) == (many.iterations > 1)
    assert points.point_of(many, Cut(1, 4), session.layout).relative_error == many.relative_error


def test_the_noise_is_the_standard_error_of_the_mean_over_the_mean():
    assert relative_error([1.0, 2.0, 3.0, 2.0]) == pytest.approx((2 / 3) ** 0.5 / 4**0.5 / 2)
    assert relative_error([2.0]) == 0


def test_what_no_point_can_mend_is_an_error(monkeypatch):
    monkeypatch.setattr(points, "Session", lambda layout, config: Session(layout, config, role=BROKEN))
    with closing(measurer()) as measure, pytest.raises(GmiError, match="mujoco is missing") as failed:
        measure(Cut(1, 128))
    assert failed.value.exit_code == MachineError.exit_code


def known(num_env, runnable=True, mib_each=1):
    speed, memory = (1e6, num_env * mib_each << 20) if runnable else (0.0, 0)
    what = {"steps_per_second": speed, "memory_bytes": memory, "reason": "" if runnable else "bang"}
    return ProfilePoint(gmis_per_gpu=1, num_env=num_env, runnable=runnable, **what)


@pytest.mark.parametrize("failed", [(128, 256), (128, 512), (256, 512)])
def test_sizes_that_fail_twice_when_small_are_not_run_large(failed):
    measure = measurer()
    measure.points = [known(num_env, runnable=num_env not in failed) for num_env in (128, 256, 512)]
    point = measure(Cut(1, 4096))
    assert not point.runnable and not measure.unmeasured
    assert point.reason == f"nor do {failed[0]} and {failed[1]}: bang"


def test_one_small_failure_leaves_large_points_to_the_line_of_the_memory(monkeypatch):
    ran = []
    monkeypatch.setattr(
        PointMeasurer, "_run", lambda self, cut, expected_s: ran.append(cut.num_env) or known(cut.num_env)
    )
    measure = measurer(node=Node(name="small", cpu=Cpu(cores=1, memory_gib=4)))
    measure.points = [known(128), known(256, runnable=False)]
    measure.cache.add(known(128))
    assert measure(Cut(1, 2048)).runnable and ran == [512, 2048]
    assert measure(Cut(1, 8192)).reason == "1 GMI would take 8.0 GiB of the host's 4.0 GiB" and ran == [512, 2048]


@pytest.mark.parametrize("others", [0.0, 0.7], ids=["quiet", "busy"])
def test_too_many_environments_for_the_memory_are_refused_before_they_are_made(monkeypatch, others):
    """Also beside other programs: they change speeds, not bytes."""
    monkeypatch.delenv("GMI_DRL_DISTURBED", raising=False)
    small = [known(num_env).model_copy(update={"others": others}) for num_env in points.SMALL]
    monkeypatch.setattr(PointMeasurer, "_run", lambda self, cut, expected_s: small.pop(0))
    measure = measurer(node=Node(name="small", cpu=Cpu(cores=1, memory_gib=1)))
    point = measure(Cut(1, 2048))
    assert not point.runnable and point.reason == "1 GMI would take 2.0 GiB of the host's 1.0 GiB"


def test_few_environments_are_whole_worlds(monkeypatch):
    ran, task = [], replace(ANT, agents=3)
    monkeypatch.setattr(PointMeasurer, "_run", lambda self, cut, expected_s: ran.append(cut.num_env) or known(4096))
    measurer(task=task)(Cut(1, 2049))
    assert ran == [129, 258, 2049]


def test_points_of_one_backend_tell_nothing_of_the_memory_of_another(install, monkeypatch):
    install_backend(install)
    ran = []
    monkeypatch.setattr(PointMeasurer, "_run", lambda self, cut, expected_s: ran.append(cut) or known(cut.num_env))
    measure = measurer(node=Node(name="small", cpu=Cpu(cores=1, memory_gib=1)))
    for num_env in points.SMALL:
        measure.cache.add(known(num_env))
    assert not measure(Cut(1, 1024)).runnable and not ran
    assert measure(Cut(1, 1024, "toy")).runnable and ran == [Cut(1, 1024, "toy")]


def test_divisions_are_run_by_their_own_backend(install):
    toy = install_backend(install)
    with closing(measurer()) as measure:
        measured = [measure(Cut(1, 4, name)) for name in ("toy", "process")]
        assert (toy.cuts, toy.alive) == (1, 0)
        assert [point.backend for point in measured] == ["toy", "process"] and all(one.runnable for one in measured)
        assert measure(Cut(1, 4, "toy")) is measured[0] and toy.cuts == 1


def test_a_division_that_its_backend_refuses_is_not_runnable(install, monkeypatch):
    """And the others are measured all the same."""
    toy = install_backend(install)
    monkeypatch.setattr(toy, "check", at_most_one)
    node = Node(name="two cores", cpu=Cpu(cores=2, memory_gib=8))
    with closing(measurer(node=node)) as measure:
        refused, runs = measure(Cut(2, 4, "toy")), measure(Cut(1, 4, "toy"))
    assert (refused.runnable, refused.reason) == (False, "toy makes 1 GMI, not 2; of cores") and toy.cuts == 1
    assert runs.runnable and measure.points == [refused, runs]


def at_most_one(backend, node, layout):
    return [f"toy makes 1 GMI, not {len(layout.gmis)}", "of cores"] if len(layout.gmis) > 1 else []


def test_a_session_that_does_not_start_makes_its_point_not_runnable(monkeypatch):
    monkeypatch.setattr(points, "Session", lambda layout, config: Session(layout, config, role=STILLBORN))
    with closing(measurer()) as measure:
        point = measure(Cut(1, 4))
        assert not point.runnable and "exited with code 7" in point.reason
        monkeypatch.setattr(points, "Session", Session)
        assert measure(Cut(1, 8)).runnable, "its devices are free again"


def test_devices_in_use_are_refused():
    with (
        closing(measurer()) as measure,
        claimed([tiny_layout(1)], "another run"),
        pytest.raises(LayoutMismatchError, match="another run"),
    ):
        measure(Cut(1, 4))
    with closing(measurer()) as measure:
        assert measure(Cut(1, 4)).runnable
        with pytest.raises(LayoutMismatchError, match="gmi-drl is measuring"), claimed([tiny_layout(1)], "a training"):
            pass


def test_several_gmis_leave_what_is_kept_and_ask_for_the_speeds_of_their_backend_once(monkeypatch):
    monkeypatch.setattr("gmi_drl.profiler.budget.time.monotonic", lambda: 1000.0)
    monkeypatch.setattr(PointMeasurer, "_run", lambda self, cut, expected_s: known(cut.num_env))
    node = Node(name="n", gpus={"model": "X", "count": 1}, cpu=Cpu(cores=10, memory_gib=80))
    grid, asked, config = grid_of({1: (8,), 2: (8, 16), 4: (8,)}), [], tiny_config()

    def ask(backend, budget):
        asked.append((backend, budget.left_s))
        return {"process": OF_CORES}

    measure = PointMeasurer(ANT, config, node, Cache(ANT, config, node), grid, Budget(1000), speeds=ask, kept=0.25)
    measure(grid[0])
    assert asked == [] and measure.budget.left_s == 1000
    assert measure._layout(grid[1]).groups["trainers"].reduction == "IPC", "not asked yet"
    for cut in grid[1:]:
        measure(cut)
    assert asked == [("process", 750.0)] * 2 and measure.budget.left_s == 750
    assert measure._layout(grid[1]).groups["trainers"].reduction == "MPR-shm"


@pytest.mark.parametrize(("have", "runs"), [((256, 512), [2048]), ((4, 512), [128, 256, 2048]), ((), [128, 256, 2048])])
def test_two_points_that_are_not_tiny_tell_the_memory_of_large_ones(monkeypatch, have, runs):
    ran = []
    monkeypatch.setattr(
        PointMeasurer, "_run", lambda self, cut, expected_s: ran.append(cut.num_env) or known(cut.num_env)
    )
    measure = measurer(node=Node(name="n", cpu=Cpu(cores=1, memory_gib=80)))
    for num_env in have:
        measure.cache.add(known(num_env))
    assert measure(Cut(1, 2048)).runnable and ran == runs


def test_on_a_gpu_two_points_tell_the_memory_and_larger_small_ones_are_taken_before_huge_ones(monkeypatch):
    ran = []
    monkeypatch.setattr(
        PointMeasurer, "_run", lambda self, cut, expected_s: ran.append(cut.num_env) or known(cut.num_env)
    )
    node = Node(name="n", gpus={"model": "X", "count": 1}, cpu=Cpu(cores=10, memory_gib=800))
    measure = measurer(node=node)
    assert measure(Cut(1, 4096)).runnable and measure(Cut(1, 16384)).runnable and measure(Cut(1, 65536)).runnable
    assert ran == [4096, 16384, 65536]
    ran.clear()
    assert measure(Cut(2, 65536)) and ran == [2048, 4096, 65536]
