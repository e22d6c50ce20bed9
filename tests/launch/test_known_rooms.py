"""What GMIs are known to take is what the memories take that they make."""

import os
from contextlib import closing
from dataclasses import replace
from itertools import chain

import pytest
import torch
from conftest import tiny_config, tiny_layout

from gmi_drl.comm.channels import ChannelSizes
from gmi_drl.comm.channels.channel_memory import ChannelMemory
from gmi_drl.comm.channels.remote_agent import _BUFFERS
from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.streams import StreamMemory, StreamSizes
from gmi_drl.config.learners import A3CConfig, DQNConfig, PPOConfig, SACConfig
from gmi_drl.config.policies import PolicySection
from gmi_drl.config.run_config import default_config
from gmi_drl.launch import known_rooms
from gmi_drl.launch.known_rooms import EACH_PROXY_BYTES, PROXY_BYTES, less_in_channels, rooms_of_groups, rooms_of_task
from gmi_drl.launch.shared_resources import HostResources
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.layout.pools import pools_of
from gmi_drl.layout.servers import services_of
from gmi_drl.roles.replay.make_ring import make_ring
from gmi_drl.roles.workers.forward import kinds_of
from gmi_drl.workload import TASK_SPECS

BALL, ANT = TASK_SPECS["ball_balance"], TASK_SPECS["ant"]
CONFIG = tiny_config(learner=PPOConfig(hidden=(8,), horizon=8, minibatches=1))
ACTOR, POLICY, TRAINER = ("simulator",), ("agent",), ("trainer",)
PAGE, NUM_ENV, RING = 4096, 2048, 2


def workers(max_lag=2, **nodes):
    """Of each node its workers: roles, or roles and a policy."""
    devices, ids = [], iter(range(100))
    for node, parts in nodes.items():
        gmis = []
        for part in parts:
            roles, policy = part if isinstance(part[0], tuple) else (part, None)
            sizes = {"num_env": NUM_ENV, "ring": RING} if roles == ACTOR else {}
            gmis.append(GMI(id=next(ids), roles=roles, policy=policy, cores=(0,), **sizes))
        devices.append(Device(node=node, kind="cpu", gmis=tuple(gmis)))
    trainers = tuple(gmi.id for device in devices for gmi in device.gmis if gmi.roles == TRAINER)
    return Layout(
        task="ball_balance",
        template="workers",
        share_cores=True,
        devices=tuple(devices),
        groups={"trainers": GmiGroup(members=trainers, reduction="MPR-shm" if len(trainers) > 1 else "none")},
        channels=Channels(max_lag=max_lag),
        streams=Streams(),
    )


THREE = workers(a=[TRAINER, TRAINER], b=[POLICY, ACTOR], c=[ACTOR, ACTOR])


def by_name(rooms, node):
    return {room.what.partition(" (")[0]: room.nbytes for where, room in rooms if where == node}


@pytest.fixture
def memory():
    """Makes an empty memory, and the notifier of the GMI that gives it its size."""
    mailboxes, made = create_mailboxes(range(6)), []

    def make(maker):
        made.append(create_empty("a test"))
        return made[-1], Notifier(mailboxes, MailboxMemory(mailboxes.memory), maker, hang_s=1.0)

    yield make
    mailboxes.close()
    for one in made:
        os.close(one)


@pytest.mark.parametrize("max_lag", [0, 3])
@pytest.mark.parametrize("mode", ["MCC", "UCC"])
def test_channels_take_a_few_pages_and_their_parameters_more(memory, max_lag, mode):
    layout = THREE.model_copy(update={"channels": Channels(max_lag=max_lag, mode=mode)})
    (pool,) = pools_of(layout)
    form, rollouts = CONFIG.learner.rollout_form(BALL, NUM_ENV), CONFIG.learner.rollouts_of(3, 2)
    sizes = ChannelSizes(form, rollouts, pool.agents, pool.trainers, layout.channels, 8, (), pool.policy_workers)
    descriptor, notifier = memory(0)
    taken = ChannelMemory(descriptor, sizes, notifier).nbytes
    assert 0 < taken - by_name(rooms_of_task(layout, CONFIG, BALL), "a")["channels"] < 16 * PAGE


def test_a_stream_takes_its_head_more_also_for_actors_of_other_hosts(memory):
    (service,) = services_of(THREE)
    kinds = kinds_of(BALL, CONFIG.learner.rollout_form(BALL, NUM_ENV), RING)
    sizes = StreamSizes(*kinds, NUM_ENV // RING, service.servers, service.clients, RING)
    assert len(list(chain.from_iterable(service.clients))) == 3
    descriptor, notifier = memory(service.servers[0])
    taken = StreamMemory(descriptor, sizes, notifier).nbytes
    rooms = rooms_of_task(THREE, CONFIG, BALL)
    assert 0 < taken - by_name(rooms, "b")["an inference stream"] <= 2 * PAGE
    assert by_name(rooms, "c")["requests to other hosts"] == 2 * RING * sizes.slot_bytes + PAGE


def test_each_host_has_what_is_made_there():
    rooms = [*rooms_of_groups(THREE, 1000), *rooms_of_task(THREE, CONFIG, BALL)]
    found = {node: by_name(rooms, node) for node in "abc"}
    assert set(found["a"]) == {"channels", "the sums of trainers", "the proxies of 4 GMIs of other hosts"}
    assert set(found["b"]) == {"an inference stream", "rollouts to other hosts"}
    assert set(found["c"]) == {"requests to other hosts", "rollouts to other hosts"}
    one = CONFIG.learner.rollout_form(BALL, NUM_ENV).offsets(1)[-1]
    assert found["c"]["rollouts to other hosts"] == 2 * found["b"]["rollouts to other hosts"] == 2 * 2 * one
    assert known_rooms._SENT == _BUFFERS
    proxies = 2 * PROXY_BYTES + 4 * EACH_PROXY_BYTES  # three actors and the policy worker, which are on two hosts
    assert found["a"]["the proxies of 4 GMIs of other hosts"] == proxies
    here = rooms_of_task(workers(**{"a": [TRAINER, POLICY, ACTOR]}), CONFIG, BALL)
    assert set(by_name(here, "a")) == {"channels", "an inference stream"}


@pytest.mark.parametrize("reduction", ["MPR-shm", "MPR-gloo", "HAR"])
def test_sums_take_their_segments(reduction):
    layout = tiny_layout(2, reduction=reduction)
    with closing(HostResources(layout, 5000)) as made:
        taken = os.fstat(made[0].rendezvous["trainers"].segment).st_size
    found = by_name(rooms_of_groups(layout, 5000), None)
    assert found == ({} if reduction == "MPR-gloo" else {"the sums of trainers": taken})


def test_each_policy_has_memory_of_its_own_for_the_rows_of_its_agents():
    chaser, runner = "chasers", "runners"
    layout = workers(a=[ACTOR, *((role, name) for role in (POLICY, TRAINER) for name in (chaser, runner))])
    alone = workers(a=[ACTOR, POLICY, TRAINER])
    groups = {f"trainers-{name}": GmiGroup(members=(3 + number,)) for number, name in enumerate((chaser, runner))}
    policies = {chaser: PolicySection(agents=("x", "y", "z")), runner: PolicySection(agents=("r",))}
    world = replace(BALL, agents=4, agent_names=("x", "y", "z", "r"))
    several = rooms_of_task(
        layout.model_copy(update={"groups": groups}), CONFIG.model_copy(update={"policies": policies}), world
    )
    found = [(room.what, room.nbytes) for _, room in several]
    whole = by_name(rooms_of_task(alone, CONFIG, BALL), "a")
    assert len(found) == 4
    for name, all_rows in whole.items():
        large, small = [nbytes for what, nbytes in found if what.startswith(name)]
        assert large / small == pytest.approx(3, rel=0.2) and large + small == pytest.approx(all_rows, rel=0.2)


def test_trainers_on_cores_have_rings_of_replay():
    config = default_config(ANT, "sac")
    found = by_name(rooms_of_task(tiny_layout(2), config, ANT), None)
    assert found == {"2 rings of replay": 2 * sum(config.learner.ring_bytes(ANT, 8, on_gpu=False))}
    gpu = tiny_layout(1).model_copy(update={"devices": (Device(kind="gpu", gmis=(GMI(id=0, num_env=8, cores=(0,)),)),)})
    assert rooms_of_task(gpu, config, ANT) == []
    pinned = config.learner.replay.model_copy(update={"placement": "pinned"})
    on_host = config.model_copy(update={"learner": config.learner.model_copy(update={"replay": pinned})})
    assert by_name(rooms_of_task(gpu, on_host, ANT), None)["1 ring of replay"] == on_host.learner.ring_bytes(ANT, 8)[1]


@pytest.mark.parametrize("of_rollouts", [False, True])
@pytest.mark.parametrize("more", [{}, {"next_obs": "twice"}], ids=["once", "twice"])
def test_rings_take_what_is_known_of_them(of_rollouts, more):
    learner = SACConfig().model_copy(update={"replay": SACConfig().replay.model_copy(update={"size": 20_000, **more})})
    made = make_ring(ANT, learner, 8, 8, torch.device("cpu"), 1, of_rollouts=of_rollouts)
    known = sum(learner.ring_bytes(ANT, 8, of_rollouts=of_rollouts, on_gpu=False))
    assert 0.9 * made.storage.bytes < known <= made.storage.bytes


@pytest.mark.parametrize(("kind", "is_told"), [("a3c", True), ("sac", False), ("dqn", False), ("ppo", False)])
def test_the_remedy_for_channels_names_settings_that_the_learner_has(kind, is_told):
    learner = {"a3c": A3CConfig, "sac": SACConfig, "dqn": DQNConfig, "ppo": PPOConfig}[kind]()
    assert ("learner.rollouts" in less_in_channels(learner)) == is_told
