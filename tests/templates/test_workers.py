"""Layouts of actor, policy and trainer workers, and what is refused before anything starts."""

from itertools import count

import pytest

from gmi_drl.config.learners import LEARNERS
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.layout.waits import waits_of
from gmi_drl.templates import TDG, WORKERS, template_for
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


def test_roles_are_by_what_a_gmi_does_first():
    layout = layout_of(ASKS, ACTS, SERVES, TRAINS)
    assert WORKERS.check(layout) == []
    kinds = [role.rpartition(":")[2] for role in WORKERS.roles(layout, LEARNERS.find("ppo")).values()]
    assert kinds == ["ActorWorker", "ActorWorker", "PolicyWorker", "PPOTrainer"]
    assert WORKERS.restartable(layout) == {gmi.id for gmi in layout.gmis if gmi.roles != ("trainer",)}
    assert WORKERS.check(layout_of(ACTS, ACTS, TRAINS, streams=Streams(fewest_actors=1))) == []
    apart = over(a=[ASKS], b=[SERVES, TRAINS])
    assert WORKERS.check(apart) == [] and WORKERS.restartable(apart) == frozenset()
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
        (layout_of(ACTS, ACTS, TRAINS, streams=Streams(fewest_actors=3)), "fewest_actors is 3, and there are 2 actors"),
        (layout_of(ASKS, SERVES, TRAINS, kind="gpu"), "put actors on a cpu device"),
        (over(a=[ASKS, ASKS, SERVES, TRAINS], b=[SERVES]), r"ask the policy workers of their node, so GMIs \[4\] have"),
        (over(a=[ASKS, SERVES, TRAINS], b=[TRAINS]), "needs an actor for the trainers of each node, b: put actors"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(layout, mistake):
    with pytest.raises(UsageError, match=mistake):
        template_for(layout, "training")


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
