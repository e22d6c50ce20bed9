"""Layouts of actor, policy and trainer workers, and what is refused before anything starts."""

from itertools import count

import pytest

from gmi_drl.config.learners import LEARNERS
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware.cluster import Cluster, Network, Nodes
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.layout.servers import services_of
from gmi_drl.layout.waits import waits_of
from gmi_drl.scheduler import plan
from gmi_drl.templates import TDG, WORKERS, template_for
from gmi_drl.templates.over_nodes import OverNodes
from gmi_drl.workload import TASK_SPECS

ASKS, ACTS, SERVES, TRAINS = ("simulator",), ("simulator", "agent"), ("agent",), ("trainer",)
STREAMS, CHANNELS = Streams(), Channels()


def over(**nodes):
    """Roles of the GMIs of each node."""
    ids, devices = count(), []
    for node, roles in nodes.items():
        gmis = tuple(GMI(id=next(ids), roles=some, num_env=4 * ("simulator" in some), cores=(0,)) for some in roles)
        devices.append(Device(node=node, kind="cpu", gmis=gmis))
    trainers = tuple(gmi.id for device in devices for gmi in device.gmis if gmi.roles == TRAINS)
    return Layout(
        task="ant",
        template="workers",
        share_cores=True,
        devices=tuple(devices),
        groups={"trainers": GmiGroup(members=trainers, reduction="HAR" if len(trainers) > 1 else "none")},
        channels=CHANNELS,
        streams=STREAMS,
    )


def layout_of(*roles, streams=STREAMS, channels=CHANNELS, kind="cpu", **actor):
    """A GMI for each of the roles; `actor` has fields of those that simulate, a list for one value each."""
    gmis = []
    for number, some in enumerate(roles):
        given = {name: value[number] if isinstance(value, list) else value for name, value in actor.items()}
        fields = {"num_env": 4} | given if "simulator" in some else {}
        gmis.append(GMI(id=number, roles=some, cores=(number,), **fields))
    trainers = tuple(gmi.id for gmi in gmis if "trainer" in gmi.roles)
    groups = {"trainers": GmiGroup(members=trainers)} if trainers else {}
    device = Device(kind=kind, gmis=tuple(gmis))
    return Layout(task="ant", template="workers", devices=(device,), groups=groups, channels=channels, streams=streams)


def test_an_even_cut_acts_inline_and_trains_on_the_last_gmi():
    node = Node(name="four", cpu=Cpu(cores=4, memory_gib=8))
    layout = WORKERS.lay_out(TASK_SPECS["ant"], node, Cut(4, 8))
    assert [gmi.roles for gmi in layout.gmis] == [ACTS, ACTS, ACTS, TRAINS]
    assert template_for(layout, "training") is WORKERS
    assert layout.groups["trainers"].members == (3,)
    with pytest.raises(NoFeasiblePlanError, match="needs 2 GMIs"):
        WORKERS.lay_out(TASK_SPECS["ant"], node, Cut(1, 8))


def on_gpus(gmis_per_gpu=None, gpus=1, cores=8, **cut):
    """The even cut of a node with GPUs."""
    node = Node(name="n", cpu=Cpu(cores=cores, memory_gib=8), gpus=Gpus(model="A100", count=gpus))
    return plan(TASK_SPECS["ant"], node, num_env=4, gmis_per_gpu=gmis_per_gpu, template=WORKERS, **cut)


def test_an_even_cut_with_a_gpu_acts_on_cores_and_infers_and_trains_on_the_gpu():
    layout = on_gpus()
    cores, gpu = layout.devices
    assert (cores.kind, gpu.kind) == ("cpu", "gpu")
    assert [gmi.roles for gmi in cores.gmis] == [ASKS] * 6 and [gmi.roles for gmi in gpu.gmis] == [SERVES, TRAINS]
    assert [gmi.cores for gmi in layout.gmis] == [(2,), (3,), (4,), (5,), (6,), (7,), (0,), (1,)]
    assert template_for(layout, "training") is WORKERS and layout.groups["trainers"].reduction == "none"
    assert "6 actors on the cores of n, 4 environments each; 1 policy worker and 1 trainer on its GPU" in layout.reasons


def test_each_gpu_of_several_has_a_trainer_and_a_policy_worker_of_its_own():
    layout = on_gpus(gpus=2)
    assert template_for(layout, "training") is WORKERS
    assert [(device.kind, device.index, len(device.gmis)) for device in layout.devices] == [
        ("cpu", 0, 4),
        ("gpu", 0, 2),
        ("gpu", 1, 2),
    ]
    assert layout.groups["trainers"] == GmiGroup(members=(5, 7), reduction="MPR-shm")
    assert [service.clients for service in services_of(layout)] == [((0, 1), (2, 3))]


def test_one_gmi_of_a_gpu_trains_and_actors_beside_it_have_agents():
    layout = on_gpus(1)
    assert [gmi.roles for gmi in layout.gmis] == [ACTS] * 7 + [TRAINS] and layout.streams is None
    assert template_for(layout, "training") is WORKERS
    assert (
        "7 actors with inline inference on the cores of n, 4 environments each; 1 trainer on its GPU" in layout.reasons
    )


def test_cores_beside_a_gpu_are_shared_where_that_is_asked_for_and_else_too_few_are_refused():
    with pytest.raises(NoFeasiblePlanError, match=r"2 GMIs of GPU 0 and 1 actor need 3 cores, it has 2: .*share-cores"):
        on_gpus(cores=2)
    shared = on_gpus(cores=2, share_cores=True)
    assert shared.share_cores and [gmi.cores for gmi in shared.gmis] == [(0,), (1,), (0,), (1,)]
    assert template_for(shared, "training") is WORKERS
    with pytest.raises(NoFeasiblePlanError, match="3 GMIs of GPU 0 and 2 actors need 5 cores, it has 4"):
        on_gpus(3, cores=4)
    with pytest.raises(NoFeasiblePlanError, match="mig cuts GPUs alone: take --backend mps"):
        on_gpus(backend="mig")


def test_nodes_with_gpus_are_cut_each_as_if_alone():
    node = Node(name="g", cpu=Cpu(cores=4, memory_gib=8), gpus=Gpus(model="A100", count=1))
    network = Network(gbit_per_s=10, round_trip_ms=0.1)
    cluster = Cluster(name="two", nodes=(Nodes(count=2, node=node),), network=network)
    layout = plan(TASK_SPECS["ant"], cluster.whole, num_env=4, template=OverNodes(WORKERS, cluster))
    assert [gmi.roles for gmi in layout.gmis] == [ASKS, ASKS, SERVES, TRAINS] * 2
    assert layout.groups["trainers"] == GmiGroup(members=(3, 7), reduction="HAR")
    assert template_for(layout, "training") is WORKERS
    assert "8 GMIs on the 2 CPU devices and 2 GPUs of 2 nodes in all" in layout.reasons


def test_roles_are_by_what_a_gmi_does_first():
    layout = layout_of(ASKS, ACTS, SERVES, TRAINS)
    assert WORKERS.check(layout) == []
    kinds = [role.rpartition(":")[2] for role in WORKERS.roles(layout, LEARNERS.find("ppo")).values()]
    assert kinds == ["ActorWorker", "ActorWorker", "PolicyWorker", "PPOTrainer"]
    assert WORKERS.restartable(layout) == {gmi.id for gmi in layout.gmis if gmi.roles != ("trainer",)}
    assert WORKERS.check(layout_of(ACTS, ACTS, TRAINS, streams=Streams(fewest_actors=1))) == []
    apart = over(a=[ASKS], b=[SERVES, TRAINS])
    assert WORKERS.check(apart) == [] and WORKERS.restartable(apart) == {0, 1}
    for kind, why in (("sequence", "learns where it acts"), ("dqn", "has no workers")):
        with pytest.raises(UsageError, match=f"{kind} {why}: take --algo ppo"):
            WORKERS.roles(layout, LEARNERS.find(kind))


@pytest.mark.parametrize(
    ("layout", "mistake"),
    [
        (layout_of(ASKS, TRAINS), r"have no agent, and no policy worker"),
        (layout_of(ASKS, SERVES, TRAINS, streams=None), r"need `streams: \{\}`: see GMIs \[0, 1\]"),
        (layout_of(ACTS, TRAINS), "streams join actors without an agent"),
        (layout_of(ACTS, TRAINS, streams=None, channels=None), "needs `channels"),
        (layout_of(ASKS, SERVES, SERVES, TRAINS), "1 actor without an agent for 2 policy workers"),
        (layout_of(ASKS, SERVES), "an actor and a trainer at least"),
        (layout_of(SERVES, TRAINS), "an actor and a trainer at least"),
        (layout_of(ASKS, SERVES, ("agent", "trainer")), r"see GMIs \[2\]"),
        (layout_of(ASKS, SERVES, TRAINS, num_env=6, ring=4), "ring must divide num_env"),
        (layout_of(ASKS, ASKS, SERVES, TRAINS, num_env=[4, 8, 0, 0]), "the same num_env"),
        (layout_of(ASKS, ASKS, SERVES, TRAINS, ring=[1, 2, 0, 0]), "the same ring"),
        (layout_of(ASKS, SERVES, TRAINS, streams=Streams(most_rows=3)), "most_rows is 3, and one request has 4"),
        (
            layout_of(ASKS, ASKS, SERVES, TRAINS, num_env=[4, 8, 0, 0], streams=Streams(most_rows=6)),
            "most_rows is 6, and one request has 8",
        ),
        (
            layout_of(ACTS, ACTS, TRAINS, streams=Streams(fewest_actors=3)),
            "fewest_actors is 3, and the layout has 2 actors",
        ),
        (layout_of(ASKS, SERVES, TRAINS, kind="gpu"), "put actors on a cpu device"),
        (over(a=[ASKS, ASKS, SERVES, TRAINS], b=[SERVES]), r"ask the policy workers of their node, so GMIs \[4\] have"),
        (over(a=[ASKS, SERVES, TRAINS], b=[TRAINS]), "needs an actor for the trainers of each node, b: put actors"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(layout, mistake):
    with pytest.raises(UsageError, match=mistake):
        template_for(layout, "training")


def test_all_mistakes_of_streams_are_told_at_once_with_their_remedies():
    settings = Streams(fewest_actors=3, most_rows=3)
    assert WORKERS.check(layout_of(ASKS, TRAINS, streams=settings)) == [
        "streams.fewest_actors is 3, and the layout has 1 actor: lower it, or add actors",
        "actors [0] have no agent, and no policy worker (`roles: [agent]`): "
        "add one, or give them an agent (`roles: [simulator, agent]`)",
        "streams.most_rows is 3, and one request has 4: raise it, or ring",
    ]
    without = WORKERS.check(layout_of(ASKS, SERVES, SERVES, TRAINS, streams=None))
    assert [one.partition(":")[0] for one in without] == [
        "actors without an agent and policy workers need `streams",
        "each policy worker needs an actor without an agent, there are 1 actor without an agent for 2 policy workers",
    ]


def test_mistakes_of_all_policies_are_told_once_and_those_of_one_by_its_name():
    roles = [(ASKS, None), (SERVES, "x"), (TRAINS, "x"), (TRAINS, "y")]
    gmis = [GMI(id=n, roles=r, num_env=4 * (r == ASKS), cores=(n,), policy=p) for n, (r, p) in enumerate(roles)]
    layout = layout_of(ASKS, streams=Streams(fewest_actors=5, most_rows=3)).model_copy(
        update={
            "devices": (Device(kind="cpu", gmis=tuple(gmis)),),
            "groups": {"trainers-x": GmiGroup(members=(2,)), "trainers-y": GmiGroup(members=(3,))},
        }
    )
    assert WORKERS.check(layout) == [
        "streams.fewest_actors is 5, and the layout has 1 actor: lower it, or add actors",
        "policy y: actors [0] have no agent, and no policy worker (`roles: [agent]`): "
        "add one, or give them an agent (`roles: [simulator, agent]`)",
    ], "who has how many of the 4 rows is not known here"


def test_mistakes_of_a_single_named_policy_are_told_once():
    gmis = [GMI(id=0, roles=ACTS, num_env=4, cores=(0,)), GMI(id=1, roles=TRAINS, cores=(1,), policy="x")]
    layout = layout_of(ACTS, streams=Streams(fewest_actors=5)).model_copy(
        update={
            "devices": (Device(kind="cpu", gmis=tuple(gmis)),),
            "groups": {"trainers-x": GmiGroup(members=(1,))},
        }
    )
    assert WORKERS.check(layout) == ["streams.fewest_actors is 5, and the layout has 1 actor: lower it, or add actors"]


def test_streams_and_rings_of_other_templates_are_refused():
    layout = layout_of(ACTS, ring=2)
    mistakes = TDG.check(layout)
    assert any("TDG has no streams" in one for one in mistakes) and any("has no rings" in one for one in mistakes)


def test_who_waits_for_a_policy_worker_is_waited_for_longer():
    inline, served = waits_of(layout_of(ACTS, TRAINS, streams=None)), waits_of(layout_of(ASKS, SERVES, TRAINS))
    assert (inline.experience, inline.trainer) == (1, 2)
    assert (served.experience, served.trainer, served.behind) == (2, 3, 4)


def test_trainers_and_policy_workers_of_several_policies_are_on_one_node_and_actors_on_any():
    def layout(*nodes):
        gmis = {node: [] for node in nodes}
        kinds = [("trainer", "x"), ("trainer", "y"), ("simulator", None)]
        for number, ((role, policy), node) in enumerate(zip(kinds, nodes, strict=True)):
            roles = (role, "agent") if role == "simulator" else (role,)
            num_env = int(role == "simulator")
            gmis[node].append(GMI(id=number, roles=roles, num_env=num_env, cores=(number,), policy=policy))
        devices = tuple(Device(node=node, kind="cpu", gmis=tuple(some)) for node, some in gmis.items())
        groups = {"trainers-x": GmiGroup(members=(0,)), "trainers-y": GmiGroup(members=(1,))}
        return Layout(task="ant", template="workers", devices=devices, groups=groups, channels=Channels())

    assert WORKERS.check(layout("a", "a", "b")) == []
    (mistake, *_) = WORKERS.check(layout("a", "b", "b"))
    assert mistake.startswith("trainers and policy workers of several policies are on nodes a, b: put them on one")
