"""Plans workers for described machines, by a profile of each kind: the division, its layout, and what limits it."""

from collections.abc import Sequence
from pathlib import Path

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware.cluster import Cluster
from gmi_drl.hardware.node import Node
from gmi_drl.layout.channels import Streams
from gmi_drl.layout.layout import GMI, Device, Layout, Projection, Role
from gmi_drl.layout.reductions import usual_across_hosts
from gmi_drl.scheduler.plan import Plan
from gmi_drl.scheduler.worker_cluster import ClusterSplit, Kind, Share, Sizes, divided
from gmi_drl.scheduler.worker_loads import limits, links_told, loads, pace, pace_setter
from gmi_drl.scheduler.worker_rates import WorkerProfile, load_worker_profile
from gmi_drl.templates import TCG_EX, WORKERS
from gmi_drl.templates.over_nodes import sum_seconds
from gmi_drl.templates.template import all_in_one
from gmi_drl.units import counted, human_count
from gmi_drl.workload import TaskSpec

Place = tuple[str | None, Node, Kind, Share]


def plan_workers(
    task: TaskSpec, learner: LearnerConfig, machines: Node | Cluster, profiles: Sequence[WorkerProfile]
) -> Plan:
    """The fastest division of all machines, computed.

    Raises:
        UsageError: if profiles are of another task or learner, unlike in `num_env`, or missing for a kind.
        NoFeasiblePlanError: if there is no room for an actor and a trainer.
    """
    kinds = _kinds(task, learner, machines, profiles)
    network = machines.network if isinstance(machines, Cluster) else None
    found = divided(kinds, network, _sizes(task, learner, kinds[0].rates.num_env, machines), limits)
    if not found:
        raise NoFeasiblePlanError(f"{machines.name} has no room for an actor and a trainer: take machines of 2 cores")
    best, why = found[0], _reasons(found, profiles)
    names = list(machines.named()) if isinstance(machines, Cluster) else [(None, machines)]
    by_kind = {kind.name: (kind, share) for kind, share in best.parts}
    places = [(name, node, *by_kind[node.name]) for name, node in names]
    layout = layout_of(task, best, places, machines, why)
    return Plan(layout, horizon=learner.horizon, learner=learner.kind)


def plan_by_files(task: TaskSpec, learner: LearnerConfig, machines: Node | Cluster, files: Sequence[Path]) -> Plan:
    """See `plan_workers`, with files of profiles."""
    return plan_workers(task, learner, machines, [load_worker_profile(file) for file in files])


def layout_of(
    task: TaskSpec, split: ClusterSplit, places: Sequence[Place], machines: Node | Cluster, why: Sequence[str]
) -> Layout:
    """The layout: on each machine actors on the first cores, then policy workers, then trainers."""
    devices: list[Device] = []
    for name, node, kind, share in places:
        first = sum(len(device.gmis) for device in devices)
        devices += _devices(split, name, node, kind, share, first)
    trainers = [[gmi.id for gmi in device.gmis if gmi.roles == ("trainer",)] for device in devices]
    if isinstance(machines, Cluster):
        method = usual_across_hosts(trainers, machines.nodes[0].kind.cpu.architecture)
    else:
        method = WORKERS.usual(trainers, machines, "process")
    return Layout(
        task=task.name,
        template=WORKERS.name,
        devices=tuple(devices),
        groups=all_in_one(trainers, method),
        channels=WORKERS.channels,
        streams=None if split.inline else Streams(),
        projection=Projection(measured=False, steps_per_second=pace(split)),
        reasons=tuple(why),
    )


def _devices(split: ClusterSplit, name: str | None, node: Node, kind: Kind, share: Share, first: int) -> list[Device]:
    """The devices of one machine: its cores, and each GPU that is used. Ids begin with `first`."""
    acts: tuple[Role, ...] = ("simulator", "agent") if split.inline else ("simulator",)
    roles: list[tuple[Role, ...]] = [acts] * share.actors + [("agent",)] * share.policies
    roles += [("trainer",)] * share.trainers
    num_env = kind.rates.num_env
    gmis = [
        GMI(
            id=first + n,
            roles=its,
            cores=(n,),
            num_env=num_env if its == acts else 0,
            ring=split.ring if its == acts else 1,
        )
        for n, its in enumerate(roles)
    ]
    if not kind.gpus:
        return [Device(node=name, kind="cpu", gmis=tuple(gmis))]
    on_cores, on_gpus = gmis[: share.actors], gmis[share.actors :]
    indices = node.gpu_indices[: len(on_gpus)]
    gpus = [
        Device(node=name, kind="gpu", index=index, gmis=(gmi,)) for index, gmi in zip(indices, on_gpus, strict=True)
    ]
    return [Device(node=name, kind="cpu", gmis=tuple(on_cores)), *gpus]


def _kinds(
    task: TaskSpec, learner: LearnerConfig, machines: Node | Cluster, profiles: Sequence[WorkerProfile]
) -> list[Kind]:
    by_node = {profile.node: profile for profile in profiles}
    if len(by_node) < len(profiles):
        raise UsageError(f"give one profile for each kind of machine: {', '.join(one.node for one in profiles)}")
    for profile in profiles:
        if (profile.task, profile.learner) != (task.name, learner.kind):
            measured = f"the profile of {profile.node} is of {profile.task} by {profile.learner}"
            raise UsageError(f"{measured}, not of {task.name} by {learner.kind}: measure that one")
    sizes = {profile.node: profile.num_env for profile in profiles}
    if len(set(sizes.values())) > 1:
        raise UsageError(
            f"actors have equally many environments, the profiles have {sizes}: measure with one --num-env"
        )
    nodes = [(part.count, part.kind) for part in machines.nodes] if isinstance(machines, Cluster) else [(1, machines)]
    if missing := [node.name for _, node in nodes if node.name not in by_node]:
        have = ", ".join(by_node)
        raise UsageError(
            f"no profile is of {', '.join(missing)}, these are of {have}: give one more --profile for each"
        )
    if unused := by_node.keys() - {node.name for _, node in nodes}:
        raise UsageError(f"{machines.name} has no machine {', '.join(sorted(unused))}: leave that --profile out")
    kinds = []
    for count, node in nodes:
        rates = by_node[node.name]
        gpus = min(node.num_gpus, node.cpu.cores - 1) if rates.gpu else 0
        kinds.append(Kind(node.name, count, node.cpu.cores, gpus, rates))
    return kinds


def _sizes(task: TaskSpec, learner: LearnerConfig, num_env: int, machines: Node | Cluster) -> Sizes:
    bucket, reduces = learner.bucket_bytes(task), learner.epochs * learner.minibatches

    def sums_s(hosts: int) -> float:
        if hosts < 2 or not isinstance(machines, Cluster):
            return 0.0
        return reduces * sum_seconds(machines.network, bucket, hosts, machines.nodes[0].kind.cpu.architecture)

    return Sizes(
        step_bytes=learner.rollout_form(task, num_env).nbytes / (num_env * learner.horizon),
        request_bytes=learner.request_bytes(task),
        answer_bytes=learner.answer_bytes(task),
        version_bytes=bucket,
        horizon=learner.horizon,
        rollouts_of=learner.rollouts_of,
        sums_s=sums_s,
    )


def _reasons(found: Sequence[ClusterSplit], profiles: Sequence[WorkerProfile]) -> list[str]:
    best, *others = found
    notes = [f"note of the profile of {profile.node}: {profile.note}" for profile in profiles if profile.note]
    why = [*notes, f"computed by the profiles, nothing was run: {_described(best)}"]
    why += [f"of each {kind.name}, {kind.count} in all: {_share_told(kind, share)}" for kind, share in best.parts]
    if best.network is not None:
        why.append(links_told(best))
    why += [f"besides: {_described(other)}" for other in others]
    ex = together(best)
    text = f"{TCG_EX.name} on the same cores {human_count(ex)} steps/s, workers {human_count(pace(best))} (as expected)"
    why.append(f"{text}: take {TCG_EX.name}, it is faster here" if ex > pace(best) else text)
    services = next((profile.services for profile in profiles if profile.services), None)
    if services is None:
        return [*why, "what carrying data costs was not measured, so it is not told which service is full first"]
    busy = loads(best, services)
    return [*why, f"computed of services, the first to be full first: {'; '.join(one.described for one in busy)}"]


def together(split: ClusterSplit) -> float:
    """Steps/s of TCG_EX with a GMI on each core: as fast as on the slowest kind, with sums between all machines."""
    gmis = sum(kind.count * kind.cores for kind in split.kinds)
    steps = split.kinds[0].rates.num_env * split.sizes.horizon
    slowest = min(kind.rates.together for kind in split.kinds)
    return gmis * steps / (steps / slowest + split.sizes.sums_s(sum(kind.count for kind in split.kinds)))


def _described(split: ClusterSplit) -> str:
    actors = counted(split.actors, "actor") + (f" with rings of {split.ring}" if split.ring > 1 else "")
    acting = f"{actors}, inline" if split.inline else f"{actors} and {counted(split.policies, 'policy worker')}"
    makes, learns = human_count(split.produced), human_count(split.learnt)
    sides = f"{acting}: {makes} steps/s, {counted(split.trainers, 'trainer')} could learn from {learns}"
    return f"{sides}; {human_count(pace(split))} steps/s, as the {pace_setter(split)} set the pace"


def _share_told(kind: Kind, share: Share) -> str:
    where = "on GPUs" if kind.gpus else "on cores"
    workers = [counted(share.actors, "actor")]
    workers += [f"{counted(share.policies, 'policy worker')} {where}"] if share.policies else []
    workers += [f"{counted(share.trainers, 'trainer')} {where}"] if share.trainers else []
    return ", ".join(workers)
