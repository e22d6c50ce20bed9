from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from conftest import tiny_config, two_cores
from toys import install_backend

from gmi_drl.config.run_config import default_config
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.hardware.speeds import GPU_MEMORY, OF_CORES, Speed
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler import confirm, measured_plan, points, sessions
from gmi_drl.profiler import speeds as speeds_module
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.cache import Cache
from gmi_drl.profiler.confirm import rivals
from gmi_drl.profiler.measured_plan import explore, plan_here
from gmi_drl.profiler.session import Measured, Session
from gmi_drl.scheduler import Candidate, grid_of, search_grid
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.workload import TASK_SPECS
from tests.gmi.nvml.fake import FakeGpu

ANT = TASK_SPECS["ant"]
BROKEN = f"{Path(__file__).parent}/probes.py:Broken"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for module in (points, measured_plan, confirm):
        monkeypatch.setattr(module, "MEASURE_S", 0.05)


def test_every_candidate_has_its_rival_once():
    assert rivals([Cut(2, 256), Cut(2, 512), Cut(1, 512)]) == [Cut(2, 256), Cut(1, 512), Cut(2, 512), Cut(1, 1024)]


def test_a_rival_has_its_gpu_plainly_where_plain_processes_can_use_it(fake_nvml):
    """In compute mode exclusive process they cannot, beside a daemon of MPS, nor in MIG mode."""
    fake_nvml.add(FakeGpu())
    two = Cut(2, 256, "mps", capped=True)
    assert rivals([two, Cut(1, 512, "mps")]) == [two, Cut(1, 512), Cut(1, 512, "mps")]
    assert rivals([Cut(2, 256, "mig")]) == [Cut(2, 256, "mig"), Cut(1, 512, "mig")]
    fake_nvml.write("gpus/0/compute_mode", 3)
    assert rivals([two]) == [two, Cut(1, 512, "mps")]


@two_cores
def test_few_points_are_run_together_at_once():
    lines = []
    plan = plan_here(ANT, tiny_config(), this_node(), grid_of({1: [16], 2: [8]}), seconds=300, tell=lines.append)
    assert {candidate.point.gmis_per_gpu for candidate in plan.candidates} == {1, 2}
    assert all(candidate.confirmed > 0 for candidate in plan.candidates) and plan.layout.projection.measured
    assert plan.layout.num_env == 16 and any("running together" in line for line in lines)


@two_cores
@pytest.mark.starts_gmis
def test_gmis_are_measured_capped_and_not_and_the_layout_says_which(install, monkeypatch):
    install_backend(install, coexists=True, enforces=("share",))
    started = []
    monkeypatch.setattr(confirm, "Session", lambda layout, config: started.append(layout) or Session(layout, config))
    plan = plan_here(ANT, tiny_config(), this_node(), [Cut(2, 8, "toy")], seconds=300)
    assert [[gmi.share for gmi in layout.gmis] for layout in started] == [[None, None], [None], [0.5, 0.5]]
    best = plan.candidates[0].point
    assert {one.point.cut.way for one in plan.candidates if one.confirmed} == {"toy", "capped toy", "process"}
    assert {gmi.share for gmi in plan.layout.gmis} == {0.5 if best.capped else None}
    other = "toy" if best.capped else "capped toy"
    # Its best may be one GMI with 16 environments: which cut is fastest differs from machine to machine.
    assert any(f"x the best by {other} (" in reason for reason in plan.layout.reasons)


class Pretended:
    """A session that starts nothing: all that differs is as fast."""

    def __init__(self, layout, config, log):
        self.layout, self.config, self.compiled_s, self.log = layout, config, 0.0, log

    def start(self, claim):
        self.log.append(self.layout)

    def close(self):
        pass

    def measure(self, num_env, seconds, *, deadline_s=None):
        total = num_env * len(self.layout.gmis)
        phases = dict.fromkeys(("sim_s", "act_s", "learn_s", "sync_s"), 0.1)
        return Measured(num_env, 9, 0.4, 1000.0 * total, 0.001, 2**30, 2**30, phases)


def pretend(monkeypatch, session):
    for module in (points, confirm):
        monkeypatch.setattr(module, "Session", session)
        monkeypatch.setattr(module, "refusal", lambda *_: "")
    for module in (points, sessions):
        monkeypatch.setattr(module, "claimed", lambda *_: nullcontext())


def test_gmis_of_a_gpu_are_measured_confirmed_and_trained_by_one_reduction_which_is_chosen_first(monkeypatch):
    """By plain sharing memory of the GPU is the fastest way, under MPS the host's."""
    node = Node(name="n", gpus=Gpus(model="NVIDIA H200", count=1), cpu=Cpu(cores=4, memory_gib=64))
    fast, slow = (Speed(round_s=round_s, bytes_per_second=1e12) for round_s in (1e-7, 1.0))
    speeds = {"process": {**OF_CORES, GPU_MEMORY: fast}, "mps": {**OF_CORES, GPU_MEMORY: slow}}
    log = []
    monkeypatch.setattr(
        speeds_module,
        "speeds_here",
        lambda node, some, *_, **__: log.append(some) or {one: speeds[one] for one in some},
    )
    pretend(monkeypatch, lambda layout, config: Pretended(layout, config, log))
    grid = [Cut(1, 8), *(Cut(2, num_env, backend) for backend in speeds for num_env in (4, 8))]
    plan = plan_here(ANT, tiny_config(), node, grid, seconds=600, objective="steps")
    layouts = [one for one in log if not isinstance(one, list)]
    assert [one if isinstance(one, list) else (one.backend, len(one.gmis)) for one in log[:5]] == [
        ("process", 1),
        ["process"],
        ("process", 2),
        ["mps"],
        ("mps", 2),
    ], "one GMI needs no speeds, and each backend's are measured when they are needed"
    started = {(one.backend, len(one.gmis), one.groups["trainers"].reduction) for one in layouts}
    assert started == {("process", 1, "none"), ("process", 2, "IPC"), ("mps", 2, "MPR-shm")}
    assert {one.cut.backend for one in plan.candidates if one.confirmed} == {"process", "mps"}
    layout = plan.layout
    assert (layout.backend, len(layout.gmis), layout.groups["trainers"].reduction) in started


@two_cores
def test_more_points_are_explored_and_the_best_confirmed():
    lines = []
    node = this_node().model_copy(update={"cpu": this_node().cpu.model_copy(update={"cores": 2, "siblings": None})})
    grid = grid_of({1: [8, 16], 2: [4, 8]})
    plan = plan_here(ANT, tiny_config(), node, grid, seconds=600, tell=lines.append, objective="steps")
    assert plan.candidates[0].confirmed is not None and any("one GMI does" in line for line in lines)
    assert plan.memory and plan.layout.reasons[0].startswith("chosen from 4 runnable points of")


def test_what_is_remembered_counts_beyond_where_a_search_stops(monkeypatch):
    node, grid, config = this_node(), grid_of({1: (128, 256, 512, 1024)}), tiny_config()
    cache = Cache(ANT, config, node)
    for cut, speed in zip(grid, (10_000.0, 8_000.0, 6_000.0, 22_000.0), strict=True):
        cache.add(ProfilePoint(gmis_per_gpu=1, num_env=cut.num_env, runnable=True, steps_per_second=speed))
    found = measured_plan.explore(ANT, config, node, grid, Budget(0))
    assert [point.num_env for point in found.profile.points] == [128, 256, 512, 1024]
    beyond = measured_plan.explore(ANT, config, node, [Cut(1, 4), Cut(1, 8)], Budget(0))
    assert [point.num_env for point in beyond.profile.points] == [4] and beyond.unmeasured == (Cut(1, 8),), (
        "one at least"
    )


def test_a_budget_that_is_over_leaves_one_round(monkeypatch):
    monkeypatch.setattr(confirm, "MOST_ROUNDS", 2)
    rounds = []
    confirm.confirm(ANT, tiny_config(), this_node(), [Cut(1, 4)], Budget(0), lambda *told: rounds.append(told))
    assert [number for number, cut, speed in rounds] == [0]


@two_cores
def test_what_fails_together_is_left_out(monkeypatch):
    monkeypatch.setattr(confirm, "Session", partial(Session, role=BROKEN))
    lines = []
    plan = plan_here(ANT, tiny_config(), this_node(), [Cut(2, 8)], seconds=300, tell=lines.append)
    assert [candidate.point.gmis_per_gpu for candidate in plan.candidates] == [2]
    assert any("1 x 16 environments: not runnable: all together: GMI 0: no room for 16" in line for line in lines)
    assert "nothing says that cutting pays" in " ".join(plan.layout.reasons)


def affordable(seconds, memory_gib=64.0):
    """Of two candidates cut by "toy", whose GMIs take 1 GiB and a MiB for each environment, with 10 s for a start."""
    node = Node(name="n", cpu=Cpu(cores=2, memory_gib=memory_gib))
    rows = [{"num_env": n, "memory_bytes": 2**30 + n * 2**20} for n in (1024, 2048)]
    known = [ProfilePoint(gmis_per_gpu=g, backend="toy", runnable=True, **row) for g in (1, 2) for row in rows]
    found = measured_plan.Exploration(
        Profile(task="ant", learner="ppo", node="n", points=tuple(known)), (), until_it_iterates_s=10.0
    )
    candidates = [Candidate(point, 1e9, 1e9) for point in reversed(known[2:])]
    return measured_plan._affordable(candidates, found, node, 16, Budget(seconds))


@pytest.mark.parametrize("coexists", [True, False])
def test_each_that_is_confirmed_has_the_time_for_one_start_and_one_round(install, coexists):
    install_backend(install, coexists)
    alone = "process" if coexists else "toy"
    first, second = ([Cut(2, n, "toy"), Cut(1, 2 * n, alone)] for n in (2048, 1024))
    assert affordable(seconds=60) == first + second
    assert affordable(seconds=35) == first
    assert affordable(seconds=15) == []


def test_what_can_be_capped_is_confirmed_both_ways(install):
    install_backend(install, coexists=True, enforces=("share",))
    first, second = ([Cut(2, n, "toy"), Cut(1, 2 * n), Cut(2, n, "toy", capped=True)] for n in (2048, 1024))
    assert affordable(seconds=90) == first + second
    assert affordable(seconds=45) == first
    assert affordable(seconds=30) == first[:2]
    grid = [Cut(1, 2048, "toy"), Cut(1, 4096, "toy"), Cut(2, 2048, "toy")]
    assert measured_plan._with_rivals(grid, first) == [*grid, first[2]], "one that is capped may be chosen"
    grid = [Cut(1, 1024), Cut(1, 2048)]
    assert measured_plan._with_rivals(grid, first[:2]) == [*grid, *first[:2]], "the rival is by a backend of the grid"


@pytest.mark.parametrize(("coexists", "both", "one"), [(True, 20.0, 12.5), (False, 7.0, None)])
def test_what_lives_at_once_shares_the_memory(install, coexists, both, one):
    """The candidates take 6 and 4 GiB, one GMI beside them 5 and 3 GiB; a tenth of the memory is spared."""
    install_backend(install, coexists)
    assert len(affordable(60, memory_gib=both)) == 4
    assert one is None or len(affordable(60, memory_gib=one)) == 2
    assert affordable(60, memory_gib=6.5) == []


def test_a_budget_in_which_nothing_can_be_measured_is_refused_at_once_with_one_that_can(monkeypatch):
    monkeypatch.setattr(measured_plan, "known_speeds", None)  # nothing is started
    remedy = r"0\.5 s are too few to measure anything: one start and one point take about 7 s: give --budget 7 at least"
    node = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))
    with pytest.raises(NoFeasiblePlanError, match=f"^{remedy}$"):
        plan_here(ANT, tiny_config(), node, grid_of({1: [8, 16, 32]}), seconds=0.5)


def test_a_budget_pays_for_what_steps_teach_only_if_a_point_can_be_measured_then():
    cache = Cache(ANT, tiny_config(), Node(name="n", cpu=Cpu(cores=2, memory_gib=8)))
    enough_s = 3 * points.pace_on(cache.node).first_s  # a short training, and half of the rest for a point
    assert [measured_plan._allows_noise(seconds, cache) for seconds in (enough_s - 1, enough_s)] == [False, True]
    cache.add_noise(NoiseScale(samples=1000.0, relative_error=0.1, trained=10_000))
    assert measured_plan._allows_noise(enough_s - 1, cache), "it is known"


class Busy(Pretended):
    """A session beside a program that takes half of the cores."""

    def measure(self, num_env, seconds, *, deadline_s=None):
        measured = super().measure(num_env, seconds)
        return replace(measured, others=0.5, takers="python3 (process 7 of ann) 98%")


@pytest.mark.parametrize("grid", [grid_of({1: [8, 16, 32]}), grid_of({1: [8]})], ids=["explored", "run together"])
def test_points_beside_other_programs_are_neither_cached_nor_chosen(monkeypatch, grid):
    monkeypatch.delenv("GMI_DRL_DISTURBED")
    monkeypatch.setattr(speeds_module, "speeds_here", lambda *_, **__: {})

    def planned(kind):
        lines = []
        for module in (points, confirm):
            monkeypatch.setattr(module, "Session", lambda layout, config: kind(layout, config, []))
        plan_here(ANT, tiny_config(), this_node(), grid, seconds=600, objective="steps", tell=lines.append)
        return lines

    with pytest.raises(NoFeasiblePlanError, match="other processes took 50% of its cores while it was measured"):
        planned(Busy)
    cache = Cache(ANT, tiny_config(), this_node())
    assert not cache.profile.points
    assert not any("disturbed" in line for line in planned(Pretended)), "quiet again"


def test_who_took_the_cores_is_said_with_each_point(monkeypatch):
    monkeypatch.delenv("GMI_DRL_DISTURBED")
    monkeypatch.setattr(points, "Session", lambda layout, config: Busy(layout, config, []))
    lines = []
    explore(ANT, tiny_config(), this_node(), grid_of({1: [8]}), Budget(600), tell=lines.append)
    assert lines[0].endswith("; disturbed: other processes took 50% of its cores (python3 (process 7 of ann) 98%)")


THOUSANDS = {1024: 317, 2048: 533, 4096: 850, 8192: 1290, 16384: 1650, 32768: 1990, 65536: 2220}
"""Steps/s by environments."""


class H200(Pretended):
    """A session on an H200, by a clock of its own: a start takes 13 s, a point 4 s. Several GMIs do 0.6 of one."""

    now = 1000.0

    def start(self, claim):
        H200.now += 13
        self.log.append(f"{len(self.layout.gmis)} by {self.layout.backend}")

    def measure(self, num_env, seconds, *, deadline_s=None):
        H200.now += 4
        self.log.append(num_env)
        gmis = len(self.layout.gmis)
        speed = 1000.0 * THOUSANDS.get(num_env * gmis, 300) * (0.6 if gmis > 1 else 1.0)
        measured = super().measure(num_env, seconds)
        return replace(measured, iteration_s=0.05, steps_per_second=speed)


def planned_on_a_gpu(monkeypatch, seconds, objective=None, count=1):
    """A plan by process and mps, and what was started, measured and found out, in this order."""
    log = []

    def waited(took_s, what, result):
        H200.now += took_s
        log.append(what)
        return result

    pretend(monkeypatch, lambda layout, config: H200(layout, config, log))
    monkeypatch.setattr("gmi_drl.profiler.budget.time.monotonic", lambda: H200.now)
    noise = NoiseScale(samples=34_100.0)
    monkeypatch.setattr(measured_plan, "noise_here", lambda *_, **__: waited(25, "noise", noise))
    monkeypatch.setattr(speeds_module, "measured_speeds", lambda node, by: waited(15, f"speeds by {by}", OF_CORES))
    node = Node(name="n", gpus=Gpus(model="NVIDIA H200", count=count), cpu=Cpu(cores=16, memory_gib=200))
    config = default_config(ANT)
    grid = search_grid(node, config.learner.horizon, backends=("process", "mps"))
    began = H200.now
    plan = plan_here(ANT, config, node, grid, seconds=seconds, objective=objective, fresh=True)
    assert H200.now - began < seconds + 15, "a point and a start more at most"
    return plan, log


def test_a_short_budget_on_a_gpu_goes_to_one_gmi_with_many_environments(monkeypatch):
    plan, log = planned_on_a_gpu(monkeypatch, 60)
    assert log[:5] == ["noise", "1 by process", 4096, 16384, 1024] and not any("speeds" in str(one) for one in log)
    assert plan.candidates[0].point.cut == Cut(1, 4096)
    (left,) = (reason for reason in plan.layout.reasons if "want of time" in reason)
    assert left.endswith("2 to 10 x 256 to 65536 by process and mps") and len(left) < 150
    steps, log = planned_on_a_gpu(monkeypatch, 60, "steps")
    assert log[:4] == ["1 by process", 4096, 16384, 65536] and steps.layout.num_env == 65536


def test_the_usual_budget_on_a_gpu_is_enough_for_several_gmis_by_both_backends_and_to_run_the_best(monkeypatch):
    plan, log = planned_on_a_gpu(monkeypatch, 300)
    alone = ["noise", "1 by process", 4096, 16384, 1024, 8192, 2048]
    assert log[: len(alone) + 3] == [*alone, "speeds by process", "2 by process", 2048]
    assert log.index("speeds by mps") + 1 == log.index("2 by mps")
    best = plan.candidates[0]
    assert best.confirmed and best.point.cut == Cut(1, 4096)


def test_of_several_gpus_the_speeds_between_them_are_found_out_behind_one_gmi_of_each(monkeypatch):
    plan, log = planned_on_a_gpu(monkeypatch, 300, count=2)
    assert log[:3] == ["noise", "1 by process", 4096] and "speeds by process" in log
    assert plan.basis.profile.speeds["process"] == OF_CORES
