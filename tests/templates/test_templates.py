"""What every template keeps to, those of other packages, too."""

import json
import re
from dataclasses import replace

import pytest
from conftest import tiny_layout
from toys import install_backend

from gmi_drl.config.learners import LEARNERS, OUR_PPO
from gmi_drl.config.run_config import default_config
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.files import parse
from gmi_drl.hardware.node import Cpu, CpuDevices, Gpus, Node
from gmi_drl.hardware.speeds import GLOO, GPU_MEMORY, OF_CORES, Speed
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.mapping import even_mapping
from gmi_drl.layout.reductions import MPR_GLOO, MPR_SHM
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.main import load_role
from gmi_drl.roles.probes.probe import Probe
from gmi_drl.scheduler import plan_measured, profile_grid
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.templates import TCG, TCG_EX, TDG_EX, TEMPLATES, template_for, template_named, template_of
from gmi_drl.templates.cost import UNTRIED
from gmi_drl.templates.over_nodes import OverNodes
from gmi_drl.templates.template import Template
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
NODE = Node(name="n", cpus=CpuDevices(cores_each=4, count=2), cpu=Cpu(cores=8, memory_gib=8))
ONLY_GLOO = {GLOO: Speed(round_s=1.0, bytes_per_second=1e9)}
ONE_DEVICE = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))
FEWEST = {"TDG": 2, "TDG_EX": 3, "decoupled": 2, "workers": 2}
"""GMIs that a device must have if it is the only one, where one is too few."""

each_template = pytest.mark.parametrize(
    "template", [TEMPLATES.find(name) for name in TEMPLATES.names], ids=TEMPLATES.names
)


def fewest(template):
    return FEWEST.get(template.name, 1)


@each_template
def test_a_cut_is_laid_out_and_keeps_to_its_template(template):
    layout = template.lay_out(ANT, NODE, Cut(4, 64), why=["because"])
    assert [[gmi.cores for gmi in device.gmis] for device in layout.devices] == [
        [(0,), (1,), (2,), (3,)],
        [(4,), (5,), (6,), (7,)],
    ]
    assert {gmi.num_env for gmi in layout.with_role("simulator")} == {64} and layout.task == "ant"
    assert {gmi.num_env for gmi in layout.gmis if "simulator" not in gmi.roles} <= {0}
    assert layout.reasons[0] == "because"
    assert layout.reasons[1].startswith("8 GMIs on the 2 CPU devices of n, 64 environments ")
    assert template_of(layout) is template and template.check(layout) == []
    assert template_for(layout, template.purpose) is template
    assert parse(Layout, json.loads(layout.model_dump_json()), "again") == layout
    assert layout.groups == template.groups([[0, 1, 2, 3], [4, 5, 6, 7]], NODE)


@each_template
def test_a_layout_names_the_backend_of_its_cut(template, install):
    install_backend(install)
    assert template.lay_out(ANT, NODE, Cut(3, 64)).backend == "process"
    assert template.lay_out(ANT, NODE, Cut(3, 64, "toy")).backend == "toy"


@each_template
def test_one_gmi_is_spoken_of_as_one_where_it_can_be_alone(template):
    if fewest(template) > 1:
        with pytest.raises(NoFeasiblePlanError, match=rf"{template.name} needs {fewest(template)} GMIs .* not 1 GMI"):
            template.lay_out(ANT, ONE_DEVICE, Cut(1, 64))
        return
    layout = template.lay_out(ANT, ONE_DEVICE, Cut(1, 64))
    assert layout.reasons[0] == "1 GMI on the CPU of n, 64 environments"


@each_template
def test_every_gmi_has_a_role_and_the_launcher_somebody_to_speak_to(template):
    layout, usual = template.lay_out(ANT, NODE, Cut(3, 64)), LEARNERS.find(template.usual_learner)
    for learner in map(LEARNERS.find, LEARNERS.names):
        try:
            roles = template.roles(layout, learner)
        except UsageError as refusal:
            assert learner is not usual and re.search(r"take --algo \w+|--template \w+$", str(refusal))
        else:
            assert list(roles) == [0, 1, 2, 3, 4, 5]
    roles = template.roles(layout, usual)
    assert all(issubclass(load_role(role), DRL_role) for role in set(roles.values()))
    for some in (template.leaders(layout), template.reporters(layout)):
        assert some and set(some) <= set(roles)


@each_template
def test_what_measures_its_gmis_is_the_learners_or_its_own_where_they_are_alike(template):
    probes = {template.probe(learner) for learner in map(LEARNERS.find, LEARNERS.names)}
    if fewest(template) > 1:
        assert probes == {None}
    elif template.purpose == "training":
        assert probes == {learner.probe for learner in map(LEARNERS.find, LEARNERS.names)}
    else:
        assert len(probes) == 1
    assert all(issubclass(load_role(probe), Probe) for probe in (template.probe(OUR_PPO),) if probe)


def test_who_learns_from_agents_on_other_gmis_is_refused_where_all_are_on_one():
    layout, apart = TCG_EX.lay_out(ANT, NODE, Cut(2, 64)), replace(OUR_PPO, name="apart", role=None)
    with pytest.raises(UsageError, match=r"^apart learns from agents on other GMIs: --template decoupled$"):
        TCG_EX.roles(layout, apart)
    assert TCG.roles(layout, apart) == TCG.roles(layout, OUR_PPO)


def test_a_template_for_our_ppo_alone_names_another_that_takes_the_learner():
    layout, taken = TDG_EX.lay_out(ANT, NODE, Cut(3, 64)), {}
    for learner in map(LEARNERS.find, ("a3c", "rsl_rl")):
        with pytest.raises(UsageError, match="by our PPO alone") as refused:
            TDG_EX.roles(layout, learner)
        other = TEMPLATES.find(str(refused.value).rpartition(" ")[2])
        taken[learner.name] = other.name
        assert other.roles(other.lay_out(ANT, NODE, Cut(3, 64)), learner)
    assert taken == {"a3c": "decoupled", "rsl_rl": "TCG_EX"}


@each_template
def test_communication_of_one_gmi_costs_nothing_and_of_more_not_less(template):
    communication = template.communication(ANT, default_config(ANT).learner, NODE)
    alone, pair, eight = (communication.seconds(even_mapping(1, gmis)) for gmis in (1, 2, 8))
    assert 0 == alone <= pair <= eight


@each_template
def test_more_gmis_than_cores_are_no_layout(template):
    with pytest.raises(NoFeasiblePlanError):
        template.lay_out(ANT, NODE, Cut(5, 64))


@pytest.mark.parametrize("template", [TCG_EX, TCG], ids=["TCG_EX", "TCG"])
def test_templates_of_gmis_that_are_alike_are_planned_by_the_same_search(template):
    points = tuple(
        ProfilePoint(gmis_per_gpu=size, num_env=64, runnable=True, steps_per_second=speed)
        for size, speed in ((1, 9.0), (2, 7.0))
    )
    profile = Profile(task="ant", learner="ppo", node="n", points=points)
    learner = default_config(ANT).learner
    grid = profile_grid(profile, NODE, learner.horizon)
    chosen = plan_measured(ANT, learner, NODE, profile, grid, template=template)
    assert chosen.layout.template == template.name and chosen.candidates[0].point.cut == Cut(2, 64)
    learns = any("samples per update" in reason for reason in chosen.layout.reasons)
    assert learns == (template.purpose == "training")


@pytest.mark.parametrize("template", [one for one in map(TEMPLATES.find, TEMPLATES.names) if one.channels is None])
def test_channels_are_refused_where_nothing_goes_through_them(template):
    layout = template.lay_out(ANT, NODE, Cut(4, 64)).model_copy(update={"channels": Channels()})
    assert template.check(layout) == [f"{template.name} has no channels, this layout has some: leave them out"]


def without_task(layout):
    return layout | {"task": None}


def with_other_roles(layout):
    layout["devices"][0]["gmis"][0]["roles"] = ["agent"]
    return layout


def with_other_groups(layout):
    return layout | {"groups": {} if layout["groups"] else {"trainers": {"members": [0, 1], "reduction": "MPR-gloo"}}}


@each_template
@pytest.mark.parametrize("broken", [without_task, with_other_roles, with_other_groups])
def test_what_is_no_layout_of_the_template_is_told(template, broken):
    whole = template.lay_out(ANT, NODE, Cut(fewest(template), 64)).model_dump(mode="json")
    layout = parse(Layout, broken(whole), "broken")
    assert any(template.name in mistake for mistake in template.check(layout))
    with pytest.raises(UsageError, match=template.name):
        template_for(layout, template.purpose)


def test_a_training_sums_gradients_once_for_every_mini_batch():
    learner = default_config(ANT).learner
    communication = TCG_EX.communication(ANT, learner, NODE)
    assert communication.reduces == learner.epochs * learner.minibatches
    assert communication.bucket_bytes == learner.bucket_bytes(ANT)
    once = MPR_SHM.seconds([[0], [1]], communication.bucket_bytes, OF_CORES)
    assert communication.seconds([[0], [1]]) == communication.reduces * once > 0
    assert communication.seconds([[0]]) == 0
    assert TCG_EX.communication(ANT, learner, NODE, speeds={"process": ONLY_GLOO}).method([[0], [1]]) is MPR_GLOO
    assert TCG.communication(ANT, learner, NODE).seconds([[0], [1]]) == 0


def test_a_layout_takes_the_reduction_that_is_fastest_and_says_why():
    communication = TCG_EX.communication(ANT, default_config(ANT).learner, NODE)
    layout = TCG_EX.lay_out(ANT, NODE, Cut(2, 64), communication=communication)
    assert layout.groups["trainers"].reduction == "MPR-shm" and communication.why([[0, 1], [2, 3]]) in layout.reasons
    gloo = replace(communication, speeds=ONLY_GLOO)
    layout = TCG_EX.lay_out(ANT, NODE, Cut(2, 64), communication=gloo)
    assert layout.groups["trainers"].reduction == "MPR-gloo"
    alone = TCG_EX.lay_out(ANT, Node(name="n", cpu=Cpu(cores=2, memory_gib=8)), Cut(1, 64), communication=communication)
    assert alone.groups["trainers"].reduction == "none" and not any("Algorithm 1" in why for why in alone.reasons)


def test_devices_of_two_kinds_are_for_serving_alone():
    """Sums of both would round differently, so the group of a training is refused."""
    node = Node(name="n", gpus=Gpus(model="X", count=2), cpu=Cpu(cores=2, memory_gib=8))
    for template in (TCG_EX, TCG):
        mixed = template.lay_out(ANT, node, Cut(1, 64)).model_dump(mode="json")
        mixed["devices"][0]["kind"] = "cpu"
        if template is TCG:
            assert TCG.check(parse(Layout, mixed, "mixed")) == []
        else:
            with pytest.raises(UsageError, match="cpu and gpu, which round differently: make a group of each kind"):
                parse(Layout, mixed, "mixed")


def test_purposes_name_the_usual_templates():
    assert template_named("training") is template_named("TCG_EX") is TCG_EX
    assert template_named("serving") is template_named("TCG") is TCG


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("TCG_EXX", "there is no template 'TCG_EXX'; did you mean 'TCG_EX'?"),
        ("trainig", "there is no template 'trainig'; did you mean 'training'?"),
        ("none", "there is no template 'none'; known: TCG_EX, TCG, TDG_EX, TDG, decoupled, workers, training, serving"),
    ],
)
def test_a_name_that_is_none_is_told_with_those_that_are(name, told):
    with pytest.raises(UsageError) as refused:
        template_named(name)
    assert str(refused.value) == told


def test_a_layout_without_template_is_nobodys():
    with pytest.raises(UsageError, match="names no template"):
        template_for(tiny_layout(1, template=None), "training")


def test_a_layout_by_an_unknown_template_can_be_read_and_not_run():
    layout = parse(Layout, tiny_layout(1).model_dump() | {"template": "TCG_EXX"}, "layout")
    with pytest.raises(UsageError, match="did you mean 'TCG_EX'"):
        template_for(layout, "training")


def test_a_template_over_nodes_asks_the_one_that_it_lays_on_each_whatever_there_is_to_ask():
    asked = {name for name, one in vars(Template).items() if callable(one) and not name.startswith("_")}
    assert asked - vars(OverNodes).keys() == {"lay_out"}


@pytest.mark.parametrize(
    ("gpus", "backend", "reduction"),
    [(1, "process", "IPC"), (1, "mps", "IPC"), (1, "auto", "IPC"), (1, "mig", "MPR-shm"), (2, "process", "MPR-shm")],
)
def test_without_speeds_gradients_stay_on_one_gpu_where_the_backend_lets_them(gpus, backend, reduction):
    node = Node(name="n", gpus=Gpus(model="A100-SXM4-40GB", count=gpus), cpu=Cpu(cores=8, memory_gib=64))
    sums = TCG_EX.communication(ANT, default_config(ANT).learner, node, backend)
    for known in (None, sums):  # of a layout that nobody plans, and of one by a profile without speeds
        layout = TCG_EX.lay_out(ANT, node, Cut(2, 64, backend), communication=known)
        assert layout.groups["trainers"].reduction == reduction
        assert (UNTRIED in layout.reasons) is (reduction == "IPC")


@pytest.mark.parametrize(("backend", "reduction"), [("process", "IPC"), ("mps", "IPC"), ("mig", "MPR-shm")])
def test_memory_of_a_gpu_is_mapped_only_where_the_backend_allows_it(backend, reduction):
    node = Node(name="n", gpus=Gpus(model="A100-SXM4-40GB", count=1), cpu=Cpu(cores=8, memory_gib=64))
    fast = {**OF_CORES, GPU_MEMORY: Speed(round_s=1e-6, bytes_per_second=1e12)}
    sums = TCG_EX.communication(ANT, default_config(ANT).learner, node, backend, {backend: fast})
    layout = TCG_EX.lay_out(ANT, node, Cut(2, 64, backend), communication=sums)
    assert layout.groups["trainers"].reduction == reduction
