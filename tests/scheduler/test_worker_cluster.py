"""Machines of several kinds are divided among actors, policy workers and trainers, and what they carry is told."""

from dataclasses import replace
from itertools import product

import pytest

from gmi_drl.config.learners import PPOConfig
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware.cluster import Cluster, Network, Nodes
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.scheduler.worker_cluster import ClusterSplit, Kind, Share, Sizes, _shares, _works, divided
from gmi_drl.scheduler.worker_cluster_plan import plan_workers
from gmi_drl.scheduler.worker_loads import carried, limits, links, loads, pace, pace_setter
from gmi_drl.scheduler.worker_rates import (
    GpuRates,
    Services,
    WorkerProfile,
    WorkerRates,
    dump_worker_profile,
    load_worker_profile,
)
from gmi_drl.templates import WORKERS
from gmi_drl.workload import TASK_SPECS

ANT, PPO = TASK_SPECS["ant"], PPOConfig(hidden=(8,), horizon=8, minibatches=1)
NETWORK = Network(gbit_per_s=8, round_trip_ms=1.0)  # 1e9 bytes/s
SIZES = Sizes(100, 40, 10, 1000, 8, lambda actors, trainers: -(-actors // trainers), lambda hosts: 0.0)
SERVICES = Services(request_s=1e-4, far_request_s=2e-4, rollout_s=1e-3, version_s=1e-3, beat_s=1e-4)


def rates(gpu=None, **changed):
    given = {"num_env": 8, "step_s": 0.01, "answers": {4: 0.001, 8: 0.002, 16: 0.004}, "update_s": 1e-4, "trip_s": 0.0}
    return WorkerRates(**{**given, "gpu": gpu, **changed})


def split(*parts, ring=1, inline=False, network=NETWORK, sizes=SIZES):
    kinds, shares = zip(*parts, strict=True)
    return ClusterSplit(kinds, shares, ring, inline, network, sizes)


FAST = GpuRates(answers={8: 1e-4, 800: 1e-3}, update_s=1e-6)
ACTS = Kind("acts", 2, 4, 0, rates())
LEARNS = Kind("learns", 1, 4, 2, rates(gpu=FAST))


def test_inline_all_actors_make_steps_and_trainers_of_the_slowest_kind_count():
    one = split((ACTS, Share(4, 0, 0)), (LEARNS, Share(2, 0, 2)), inline=True)
    assert (one.actors, one.trainers, one.policies) == (10, 2, 0)
    assert one.produced == pytest.approx(10 * 8 / 0.012) and one.learnt == pytest.approx(2e6)
    assert pace_setter(one) == "actors" and pace(one) == one.produced == limits(one)[0]


def test_actors_without_a_policy_worker_on_their_machine_wait_for_the_network():
    one = split((ACTS, Share(4, 0, 0)), (LEARNS, Share(2, 1, 1)))
    assert one.far_askers == 8 and one.rows_at(*one.parts[1]) == 80
    far, near = (one.rate_of(*part) for part in one.parts)
    sent_s = 50 * 80 / NETWORK.speed.bytes_per_second
    assert near == pytest.approx(8 / (0.01 + 1.81818e-4), rel=1e-4)
    assert far == pytest.approx(8 / (0.01 + 1.81818e-4 + 1e-3 + sent_s), rel=1e-4)
    ringed = split((ACTS, Share(4, 0, 0)), (LEARNS, Share(2, 1, 1)), ring=2)
    assert ringed.rate_of(*ringed.parts[0]) == pytest.approx(800)  # the other member steps meanwhile


def test_a_busy_policy_worker_sets_the_pace():
    slow = Kind("slow", 1, 8, 0, rates(answers={8: 0.02}))
    one = split((slow, Share(4, 1, 1)), ring=2, network=None)
    assert one.answered == pytest.approx(8 / 0.02) and one.produced == one.answered
    assert pace_setter(one) == "policy workers"


def test_links_carry_rollouts_requests_and_versions():
    one = split((ACTS, Share(4, 0, 0)), (LEARNS, Share(2, 1, 1)))
    acting, learning = links(one, 1000.0)
    share = one.rate_of(*one.parts[0]) / one.asked
    assert acting.sent == pytest.approx(4000 * share * 140)  # rollouts and requests
    assert acting.received == pytest.approx(4000 * share * 10)  # answers; no reader of versions is there
    assert (learning.received, learning.sent) == pytest.approx((2 * acting.sent, 2 * acting.received))
    inline = split((ACTS, Share(4, 0, 0)), (LEARNS, Share(2, 0, 2)), inline=True)
    acting, learning = links(inline, 1000.0)
    versions = 1000 / (2 * 5 * 8 * 8) * 1000
    assert acting.received == pytest.approx(4 * versions) and learning.sent == pytest.approx(8 * versions)
    slow = split(
        (ACTS, Share(4, 0, 0)), (LEARNS, Share(2, 0, 2)), inline=True, network=Network(gbit_per_s=1e-3, round_trip_ms=1)
    )
    assert pace_setter(slow) == "links" and pace(slow) == carried(slow) < inline.produced


def test_the_service_that_is_full_first_comes_first():
    one = split((ACTS, Share(4, 0, 0)), (LEARNS, Share(2, 1, 1)))
    told = loads(one, SERVICES)
    parts = [load.part for load in told]
    assert parts == sorted(parts, reverse=True) and len(told) == 3  # versions have no reader elsewhere
    assert told[0].service == "the policy workers' requests"
    assert told[0].saturated == pytest.approx(10 / told[0].part) and "full with" in told[0].described


def test_a_machine_of_actors_has_one_process_of_proxies_which_sends_versions_where_inference_is_inline():
    one = split((ACTS, Share(4, 0, 0)), (LEARNS, Share(2, 0, 2)), inline=True)
    (proxies,) = [load for load in loads(one, SERVICES) if load.service.startswith("the proxies")]
    rate = pace(one)
    rollouts, updates = 0.4 * rate / (8 * 8), rate / (2 * 5 * 8 * 8)
    assert proxies.part == pytest.approx(rollouts * 1e-3 + 4 * updates * 1e-3)


def test_machines_with_gpus_train_and_the_rest_act():
    best, *_ = divided([ACTS, LEARNS], NETWORK, SIZES, limits)
    assert best.shares[0].trainers == 0 and best.shares[1].trainers > 0
    assert all(share.actors >= 1 for share in best.shares)
    speeds = [pace(one) for one in divided([ACTS, LEARNS], NETWORK, SIZES, limits)]
    assert speeds == sorted(speeds, reverse=True) and len(speeds) == 3


def test_cores_alone_are_divided_as_on_one_machine():
    slow_learner = Kind("four", 3, 4, 0, rates(update_s=1e-2))
    (best, *_) = divided([slow_learner], NETWORK, SIZES, limits)
    assert best.shares == (Share(1, 0, 3),)


def test_trainers_and_policy_workers_are_of_the_kind_where_all_is_fastest():
    quick = rates(step_s=0.0064, answers={4: 6e-5, 8: 1.2e-4, 16: 2.4e-4}, update_s=3e-5)
    slow = rates(step_s=0.028, answers={4: 2e-3, 8: 4e-3, 16: 7e-3}, update_s=1.2e-4)
    sums = replace(SIZES, version_bytes=100_000, sums_s=lambda hosts: 0.002 * (hosts > 1))
    network = Network(gbit_per_s=1, round_trip_ms=0.5)
    best, *_ = divided([Kind("quick", 3, 4, 0, quick), Kind("slow", 1, 8, 0, slow)], network, sums, limits)
    assert best.inline and best.shares == (Share(4, 0, 0), Share(6, 0, 2))
    quick, slow = replace(ACTS, rates=quick), Kind("learns", 1, 4, 0, rates(step_s=0.001))
    for ring in divided([quick, slow], network, sums, limits):
        every = product(*(_shares(kind, [quick, slow], ring.inline) for kind in (quick, slow)))
        others = [one for shares in every if _works(one := replace(ring, shares=shares))]
        assert limits(ring) == max(map(limits, others))


NODES = (
    Nodes(count=2, node=Node(name="acts", cpu=Cpu(cores=4, memory_gib=8))),
    Nodes(
        node=Node(
            name="learns", gpus=Gpus(model="A100-SXM4-40GB", count=2), link="nvlink", cpu=Cpu(cores=4, memory_gib=8)
        )
    ),
)
CLUSTER = Cluster(name="pair", network=NETWORK, nodes=NODES)


def profile(node, gpu=None, **more):
    known = rates(gpu=gpu, **more).model_dump()
    return WorkerProfile.model_validate({**known, "task": "ant", "node": node})


def test_the_layout_of_unlike_machines_is_valid_and_says_what_limits_it():
    plan = plan_workers(ANT, PPO, CLUSTER, [profile("acts"), profile("learns", FAST, services=SERVICES)])
    layout = plan.layout
    assert WORKERS.check(layout) == [] and layout.nodes == ("acts-0", "acts-1", "learns")
    assert {layout.device_of(gmi.id).kind for gmi in layout.with_role("trainer")} == {"gpu"}
    assert len(layout.gmis) == 12 and {gmi.num_env for gmi in layout.with_role("simulator")} == {8}
    told = "\n".join(layout.reasons)
    for part in (
        "nothing was run",
        "of each acts, 2 in all: 4 actors",
        "computed of the network",
        "TCG_EX on the same",
    ):
        assert part in told
    assert "the first to be full first" in told
    alone = plan_workers(ANT, PPO, NODES[0].kind, [profile("acts")])
    assert alone.layout.nodes == (None,) and "not told which service" in "\n".join(alone.layout.reasons)


def test_only_gpus_that_a_node_uses_get_workers():
    several = Node(name="learns", gpus=Gpus(model="L4", count=4), used=(1, 3), cpu=Cpu(cores=4, memory_gib=64))
    layout = plan_workers(ANT, PPO, several, [profile("learns", FAST)]).layout
    indices = [device.index for device in layout.devices if device.kind == "gpu"]
    assert indices and set(indices) <= {1, 3}


def test_profiles_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match="no profile is of learns, these are of acts"):
        plan_workers(ANT, PPO, CLUSTER, [profile("acts")])
    with pytest.raises(UsageError, match=r"profiles have \{'acts': 8, 'learns': 4}"):
        plan_workers(ANT, PPO, CLUSTER, [profile("acts"), profile("learns", num_env=4)])
    with pytest.raises(UsageError, match="is of ant by ppo, not of"):
        plan_workers(TASK_SPECS["humanoid"], PPO, CLUSTER, [profile("acts"), profile("learns")])
    with pytest.raises(UsageError, match="give one profile for each kind"):
        plan_workers(ANT, PPO, CLUSTER, [profile("acts"), profile("acts")])
    with pytest.raises(UsageError, match="acts has no machine learns: leave that --profile out"):
        plan_workers(ANT, PPO, NODES[0].kind, [profile("acts"), profile("learns")])
    with pytest.raises(NoFeasiblePlanError, match="no room for an actor and a trainer"):
        plan_workers(ANT, PPO, Node(name="acts", cpu=Cpu(cores=1, memory_gib=8)), [profile("acts")])


def test_a_profile_is_read_as_it_was_written(tmp_path):
    known = profile("learns", FAST, services=SERVICES)
    (tmp_path / "p.json").write_text(dump_worker_profile(known))
    assert load_worker_profile(tmp_path / "p.json") == known
