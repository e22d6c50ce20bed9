import pytest
from toys import install_backend

from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig, default_config
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler.cache import Cache, cache_folder
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.templates import TCG
from gmi_drl.workload import TASK_SPECS

NODE = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))
LARGER = Node(name="n", cpu=Cpu(cores=4, memory_gib=8))
ANT = TASK_SPECS["ant"]


def point(num_env, speed=1.0):
    return ProfilePoint(gmis_per_gpu=1, num_env=num_env, runnable=True, steps_per_second=speed)


def test_what_was_measured_is_remembered():
    cache = Cache(ANT, RunConfig(), NODE)
    assert cache.profile.points == () and cache.path.is_relative_to(cache_folder())
    cache.add(point(64))
    cache.add(point(128))
    cache.add(point(64, 2.0))
    assert {p.num_env: p.steps_per_second for p in cache.profile.points} == {128: 1.0, 64: 2.0}
    assert Cache(ANT, RunConfig(), NODE).profile.point(Cut(1, 64)).steps_per_second == 2.0
    assert len(Cache(ANT, RunConfig(), NODE).profile.points) == 2
    fresh = Cache(ANT, RunConfig(), NODE, fresh=True)
    assert fresh.profile.points == ()
    fresh.add(point(64, 3.0))
    assert {p.num_env: p.steps_per_second for p in Cache(ANT, RunConfig(), NODE).profile.points} == {64: 3.0, 128: 1.0}
    assert [p.num_env for p in fresh.profile.points] == [64]


def test_what_is_measured_by_two_at_once_is_remembered_of_both():
    one, other = Cache(ANT, RunConfig(), NODE), Cache(ANT, RunConfig(), NODE)
    one.add(point(64))
    other.add(point(128))
    assert [p.num_env for p in Cache(ANT, RunConfig(), NODE).profile.points] == [64, 128]


@pytest.mark.parametrize(
    ("config", "node", "version"),
    [
        (RunConfig(learner=PPOConfig(horizon=8)), NODE, None),
        (RunConfig(physics="warp"), NODE, None),
        (RunConfig(tf32=True), NODE, None),
        (RunConfig(), LARGER, None),
        (RunConfig(), NODE, "9.9"),
    ],
)
def test_another_workload_node_or_version_is_another_memory(monkeypatch, config, node, version):
    Cache(ANT, RunConfig(), NODE).add(point(64))
    if version:
        monkeypatch.setattr("gmi_drl.profiler.cache.versions", lambda: {"torch": version})
    assert Cache(ANT, config, node).profile.points == ()


def test_another_template_is_another_memory():
    Cache(ANT, RunConfig(), NODE).add(point(64))
    assert Cache(ANT, RunConfig(), NODE, template=TCG).profile.points == ()


def test_learners_do_not_share_what_was_measured(monkeypatch):
    Cache(ANT, RunConfig(), NODE).add(point(64))
    theirs = default_config(ANT, "rsl_rl")
    assert Cache(ANT, theirs, NODE).profile.points == ()
    Cache(ANT, theirs, NODE).add(point(128))
    assert Cache(ANT, theirs, NODE).profile.learner == "rsl_rl" and len(Cache(ANT, theirs, NODE).profile.points) == 1
    monkeypatch.setattr("gmi_drl.profiler.cache.versions", lambda *more: {package: "9.9" for package in more})
    assert Cache(ANT, theirs, NODE).profile.points == ()
    Cache(ANT, theirs, NODE).add(point(128))
    monkeypatch.setattr("gmi_drl.profiler.cache.versions", lambda *more: {package: "9.8" for package in more})
    assert Cache(ANT, theirs, NODE).profile.points == ()  # measured with another rsl-rl-lib


def test_points_of_another_backend_are_not_taken_for_this_ones(install):
    install_backend(install)
    Cache(ANT, RunConfig(), NODE).add(point(64, 1.0))
    Cache(ANT, RunConfig(), NODE).add(point(64, 2.0).model_copy(update={"backend": "toy"}))
    profile = Cache(ANT, RunConfig(), NODE).profile
    assert {name: profile.point(Cut(1, 64, name)).steps_per_second for name in ("process", "toy")} == {
        "process": 1.0,
        "toy": 2.0,
    }
    assert profile.point(Cut(1, 64, "other")) is None


def test_how_a_run_is_kept_is_no_part_of_the_memory():
    Cache(ANT, RunConfig(), NODE).add(point(64))
    assert Cache(ANT, RunConfig(seed=3, iterations=7), NODE).profile.point(Cut(1, 64)) is not None


def test_a_broken_or_forbidden_memory_costs_nothing_but_itself(monkeypatch, tmp_path):
    cache = Cache(ANT, RunConfig(), NODE)
    cache.add(point(64))
    cache.path.write_text("{")
    assert Cache(ANT, RunConfig(), NODE).profile.points == ()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GMI_DRL_CACHE", str(tmp_path / "file"))
    unwritable = Cache(ANT, RunConfig(), NODE)
    unwritable.add(point(64))
    assert unwritable.profile.point(Cut(1, 64)) is not None


def test_the_noise_scale_is_remembered_beside_the_points():
    Cache(ANT, RunConfig(), NODE).add(point(64))
    Cache(ANT, RunConfig(), NODE).add_noise(NoiseScale(samples=100.0))
    Cache(ANT, RunConfig(), NODE, fresh=True).add(point(128))
    known = Cache(ANT, RunConfig(), NODE).profile
    assert known.noise == NoiseScale(samples=100.0) and len(known.points) == 2
    assert Cache(ANT, RunConfig(), NODE, fresh=True).profile.noise is None
