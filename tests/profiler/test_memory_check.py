import re
from dataclasses import replace

import pytest
from conftest import tiny_config, tiny_layout
from toys import install_backend

from gmi_drl.config.learners import A3CConfig, PPOConfig, RslRlConfig
from gmi_drl.config.run_config import default_config
from gmi_drl.errors import GmiError, LayoutMismatchError
from gmi_drl.gmi.claims import claim
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.node import Gpus, Node
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.profiler import memory_check
from gmi_drl.profiler.memory_check import require_room
from gmi_drl.profiler.points import PointMeasurer
from gmi_drl.profiler.session import Session
from gmi_drl.roles.workers.forward import kinds_of
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.templates import DECOUPLED, TCG, Decoupled
from gmi_drl.units import GIB
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import categorical, image

ANT = TASK_SPECS["ant"]


def node_with(memory_gib):
    node = this_node()
    return Node(name=node.name, cpu=node.cpu.model_copy(update={"memory_gib": memory_gib}))


def test_what_would_fit_anyway_is_not_measured(monkeypatch):
    monkeypatch.setattr(memory_check, "PointMeasurer", None)
    require_room(tiny_layout(gmis=1, num_env=1024), tiny_config(), ANT, node_with(4.0))


def test_a_policy_of_a3c_is_served_where_nobody_trains():
    serving = TCG.lay_out(ANT, this_node(), Cut(1, 64))
    require_room(serving, default_config(ANT, "a3c"), ANT, node_with(4.0))


def test_wide_networks_are_a_reason_to_measure():
    told, config = [], tiny_config()
    wide = config.model_copy(update={"learner": config.learner.model_copy(update={"hidden": (8192,) * 3})})
    with claim(["core-0"], "another training"):  # so that nothing is measured here
        for some in (config, wide):
            told.append("wide" if some is wide else "narrow")
            require_room(tiny_layout(gmis=1, num_env=1024), some, ANT, node_with(3.0), told.append)
    assert told[:2] == ["narrow", "wide"] and "measuring" in told[2]


def test_too_many_environments_are_refused_by_what_a_few_take():
    told = []
    with pytest.raises(LayoutMismatchError, match=r"500000 environments in a GMI.*of the host's 4\.0 GiB.*--num-env"):
        require_room(tiny_layout(gmis=1, num_env=500_000), tiny_config(), ANT, node_with(4.0), told.append)
    assert told == ["500000 environments are many: measuring how much memory a few take"]
    require_room(tiny_layout(gmis=1, num_env=8192), tiny_config(), ANT, node_with(4.0))  # remembered, and it fits


def test_what_a_learner_takes_beyond_our_ppo_in_its_place_is_added(monkeypatch):
    stand_in = tiny_config()
    monkeypatch.setattr(memory_check, "measurable", lambda *given: stand_in)  # as for one without a probe
    theirs = stand_in.model_copy(update={"learner": RslRlConfig.for_task(ANT)})
    monkeypatch.setattr(RslRlConfig, "memory_bytes", lambda self, task, num_env: num_env * 2**21)
    told = []
    require_room(tiny_layout(gmis=1, num_env=1000), theirs, ANT, node_with(4.0), told.append)
    assert told == ["1000 environments are many: measuring how much memory a few take"]  # and it fits
    with pytest.raises(LayoutMismatchError, match=r"of the host's 4\.0 GiB.*[GM]iB more for rsl_rl"):
        require_room(tiny_layout(gmis=1, num_env=2000), theirs, ANT, node_with(4.0))


def test_what_cannot_be_reckoned_is_measured(monkeypatch):
    monkeypatch.setattr(PPOConfig, "memory_bytes", lambda self, task, num_env: None)
    told = []
    require_room(tiny_layout(gmis=1, num_env=8), tiny_config(), ANT, node_with(64.0), told.append)
    assert told == ["the memory of ppo cannot be computed: measuring how much a few environments take"]


def test_channels_that_have_no_room_are_refused_by_their_size():
    layout = Decoupled(1, Channels(max_lag=99)).lay_out(ANT, node_with(4.0), Cut(2, 1024))
    config = tiny_config(learner=A3CConfig(horizon=32))
    told = r"needs .* 90% of its 819\.2 MiB .* for channels \(1 trainer, each 100 batches .*environments.*rollouts.*lag"
    with pytest.raises(LayoutMismatchError, match=told):
        require_room(layout, config, ANT, node_with(0.8))
    require_room(layout, config, ANT, node_with(8.0))


def test_slots_of_streams_that_have_no_room_are_refused_by_their_size():
    def asking(num_env):
        kinds = {0: ("simulator",), 1: ("agent",), 2: ("trainer",)}
        gmis = tuple(
            GMI(id=number, roles=kind, num_env=0 if number else num_env, cores=(0,)) for number, kind in kinds.items()
        )
        devices = (Device(kind="cpu", gmis=gmis),)
        return Layout(task="ant", template="workers", share_cores=True, devices=devices, streams=Streams())

    config, most = tiny_config(learner=PPOConfig(horizon=2)), 10**6
    each = config.learner.request_bytes(ANT) + config.learner.answer_bytes(ANT)
    request, answer = kinds_of(ANT, config.learner.rollout_form(ANT, 7), 1)
    assert 7 * each == sum(kind.nbytes for kind in (*request, *answer))
    told = rf"needs .* 90% of its 204\.8 MiB .* for an inference stream \(1 slot x {most} rows of {each} B\): use fewer"
    with pytest.raises(LayoutMismatchError, match=told):
        require_room(asking(most), config, ANT, node_with(0.2))


def test_what_fits_but_for_its_channels_is_told(monkeypatch):
    layout, told = Decoupled(1, Channels(max_lag=99)).lay_out(ANT, node_with(4.0), Cut(2, 64)), []
    for max_lag in (0, 1000):
        layout = layout.model_copy(update={"channels": Channels(max_lag=max_lag)})
        require_room(layout, tiny_config(learner=A3CConfig(horizon=32)), ANT, node_with(2.6), told.append)
        assert len(told) == (1 if max_lag else 0)
    assert "GMIs of decoupled differ, so none is measured" in told[0]


def test_on_a_gpu_channels_are_told_to_be_the_cause_where_they_are():
    cpu, gpus = this_node().cpu.model_copy(update={"memory_gib": 64.0}), (Gpus(model="A100", count=1, memory_gib=16.0),)
    node, config = Node(name="n", cpu=cpu, gpus=gpus), tiny_config(learner=A3CConfig(horizon=32))

    def told(max_lag, num_env=4096):
        lines, layout = [], Decoupled(1, Channels(max_lag=max_lag)).lay_out(ANT, node, Cut(2, num_env))
        require_room(layout, config, ANT, node, lines.append)
        return lines

    assert told(1) == []
    assert "channels of 11.0 GiB are large (let agents have fewer environments" in told(300)[0]
    assert "8000 environments are many" in told(1, num_env=8000)[0]
    with pytest.raises(
        LayoutMismatchError, match=r"batches of channels would take .* of a GPU's 16\.0 GiB: let agents"
    ):
        told(999)


def test_actors_on_cores_take_no_memory_of_the_gpu_that_learns():
    cpu, gpus = this_node().cpu.model_copy(update={"memory_gib": 64.0}), (Gpus(model="A100", count=1, memory_gib=8.0),)
    node, task = Node(name="n", cpu=cpu, gpus=gpus), replace(ANT, observation=image(4, 84, 84))
    actors = tuple(GMI(id=number, roles=("simulator", "agent"), num_env=256, cores=(0,)) for number in range(8))
    trainer = GMI(id=8, roles=("trainer",), num_env=0, cores=(0,))
    devices = (Device(kind="cpu", gmis=actors), Device(kind="gpu", gmis=(trainer,)))
    layout = Layout(task="ant", template="workers", share_cores=True, devices=devices)
    config = tiny_config(learner=PPOConfig(horizon=128))
    memory_check._require_room_for_images(layout, config, task, node)  # 1.7 GiB of each actor, on the host
    told: list[str] = []
    require_room(layout, config, ANT, node, told.append)
    assert told == []  # 1.25 GiB of each GMI would be 10 GiB of the GPU
    small = Node(name="n", cpu=cpu.model_copy(update={"memory_gib": 10.0}), gpus=gpus)
    with pytest.raises(LayoutMismatchError, match=r"of the host's 10\.0 GiB: at most \d+ environments fit"):
        memory_check._require_room_for_images(layout, config, task, small)


def test_a_few_are_whole_worlds(monkeypatch):
    ran, node = [], node_with(4.0)

    def run(measure, cut, expected_s):
        ran.append(cut.num_env)
        return ProfilePoint(gmis_per_gpu=1, num_env=cut.num_env, runnable=True, steps_per_second=1.0)

    monkeypatch.setattr(PointMeasurer, "_run", run)
    require_room(tiny_layout(gmis=1, num_env=500_001), tiny_config(), replace(ANT, agents=3), node)
    assert ran == [129, 258]


def test_a_few_are_cut_as_the_layout_is(install):
    toy = install_backend(install)
    with pytest.raises(LayoutMismatchError, match="of the host's"):
        require_room(tiny_layout(gmis=1, num_env=500_000, backend="toy"), tiny_config(), ANT, node_with(4.0))
    assert toy.cuts == 1


def test_what_cannot_be_measured_is_told_and_not_refused():
    layout, told = tiny_layout(gmis=1, num_env=500_000), []
    with claim(["core-0"], "another training"):
        require_room(layout, tiny_config(seed=5), ANT, node_with(4.0), told.append)
    assert "the memory is not known" in told[1] and "another training" in told[1]


def test_why_a_few_environments_do_not_run_is_told(monkeypatch):
    def fails(self, num_env, seconds, **more):
        raise GmiError("GMI 0: no such joint")

    monkeypatch.setattr(Session, "measure", fails)
    told = []
    require_room(tiny_layout(gmis=1, num_env=500_000), tiny_config(seed=6), ANT, node_with(4.0), told.append)
    assert told[1:] == ["the memory is not known: GMI 0: no such joint"]


def test_images_that_do_not_fit_are_refused_by_their_bytes_with_what_fits():
    games = replace(ANT, observation=image(4, 84, 84), action=categorical(6))
    config = default_config(games)
    layout = tiny_layout(gmis=1, num_env=4096)
    words = r"27\.6 KiB of images a step, 128 steps, 4096 environments.*2 copies: .*at most (\d+) environments fit"
    with pytest.raises(LayoutMismatchError, match=words) as refused:
        require_room(layout, config, games, node_with(4.0))
    fits = int(re.search(words, str(refused.value))[1])
    assert 400 < fits < 600
    memory_check._require_room_for_images(tiny_layout(gmis=1, num_env=fits), config, games, node_with(4.0))
    with pytest.raises(LayoutMismatchError):
        memory_check._require_room_for_images(tiny_layout(gmis=1, num_env=fits + 1), config, games, node_with(4.0))


def test_rings_that_have_no_room_are_refused_by_their_size():
    config = default_config(ANT, "sac")
    large = config.learner.replay.model_copy(update={"size": 400_000_000})
    config = config.model_copy(update={"learner": config.learner.model_copy(update={"replay": large})})
    told = r"needs .* 90% of its 4\.0 GiB .* for 1 ring of replay: lower learner\.replay\.size"
    with pytest.raises(LayoutMismatchError, match=told):
        require_room(tiny_layout(gmis=1, num_env=8), config, ANT, node_with(4.0))


def test_rings_of_rollouts_are_on_trainers_alone():
    config = default_config(ANT, "sac")
    large = config.learner.replay.model_copy(update={"size": 8_000_000})
    config = config.model_copy(update={"learner": config.learner.model_copy(update={"replay": large})})
    cut, node = Cut(3, 8, share_cores=True), node_with(4.0)
    each = config.learner.ring_bytes(ANT, 2 * 8)[0]
    assert each < 3 * GIB < 4 * GIB < 2 * each
    told_lines: list[str] = []
    require_room(DECOUPLED.lay_out(ANT, node, cut), config, ANT, node_with(9.0), told_lines.append)
    assert told_lines == [], "agents have none"
    require_room(DECOUPLED.lay_out(ANT, node, cut), config, ANT, node)
    told = r"needs .* for 2 rings of replay, .* for channels .*: lower learner\.replay\.size, or let agents"
    with pytest.raises(LayoutMismatchError, match=told):
        require_room(Decoupled(2).lay_out(ANT, node, cut), config, ANT, node)
