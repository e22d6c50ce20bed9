"""Trainings by workers, all of whose processes share the core of a run: their updates, with CPU seconds of all."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trainings import DEADLINE_S, PATIENCE, Settings, Update

ACTS, ANSWERS, TRAINS, INLINE = ("simulator",), ("agent",), ("trainer",), ("simulator", "agent")


def layout_of(task: str, num_env: int, nodes: list[list[Any]], max_lag: int, ring: int = 1) -> Any:
    """A layout of these GMIs, on one host or several, which all have its first core.

    Args:
        task: The task.
        num_env: Environments of an actor.
        nodes: For each host the GMIs: their roles, or a pair of these and the name of a policy.
        max_lag: Of the channels.
        ring: Of the actors.
    """
    from gmi_drl.layout.channels import Channels, Streams
    from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
    from gmi_drl.layout.policies import group_of

    devices, gmis = [], list[GMI]()
    for host, workers in enumerate(nodes):
        own = []
        for worker in workers:
            roles, policy = worker if isinstance(worker[-1], str) and isinstance(worker[0], tuple) else (worker, None)
            acts = {"num_env": num_env, "ring": ring} if "simulator" in roles else {}
            own.append(GMI(id=len(gmis) + len(own), roles=roles, policy=policy, cores=(0,), **acts))
        gmis += own
        node = f"host-{host}" if len(nodes) > 1 else None
        devices.append(Device(node=node, kind="cpu", gmis=tuple(own)))
    groups = {
        group_of(name): GmiGroup(members=tuple(gmi.id for gmi in gmis if (gmi.roles, gmi.policy) == (TRAINS, name)))
        for name in {gmi.policy for gmi in gmis if gmi.roles == TRAINS}
    }
    return Layout(
        task=task,
        template="workers",
        share_cores=True,
        devices=tuple(devices),
        groups=groups,
        channels=Channels(max_lag=max_lag),
        streams=Streams() if any(gmi.roles == ANSWERS for gmi in gmis) else None,
    )


def by_layout(
    settings: Settings,
    layout: Any,
    config: Any,
    policy: str | None = None,
    supervisors: Any = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Iterator[Update]:
    """Train a layout; several hosts are supervisors on this machine. Yields the updates when it has ended.

    Args:
        settings: Of the task: `steps` and `cpu_s` end it.
        layout: The layout.
        config: Of the run.
        policy: Whose returns count; None: there is one.
        supervisors: Starts those of several hosts; None: as processes of this machine, joined by its loopback.
        tell: Is called when a node joins, or the run goes on without an actor.
    """
    from gmi_drl.launch.job import resolve
    from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
    from gmi_drl.launch.training import train
    from gmi_drl.run.folder import RunFolder

    updates = list[Update]()
    at_s = list[float]()  # of each row; the first counts, as processes take long to start
    timed = with_end(settings, layout, config)

    def keep(row: dict[str, Any]) -> None:
        told = row if policy is None else row["policies"][policy]
        at_s.append(cpu_s_of_all())
        spent_s = at_s[-1] - at_s[0]
        updates.append(Update(row["env_steps"], spent_s, int(told["episodes"]), told["return_sum"]))

    with TemporaryDirectory(prefix="gmi-drl-workers-") as path:
        folder = RunFolder(Path(path) / "run", stays=False)
        folder.create()
        more = {} if layout.nodes == (None,) else {"supervisors": supervisors or SubprocessSupervisors()}
        train(resolve(layout, timed, folder), on_row=keep, on_restart=tell, on_warning=tell, **more)
    yield from updates


def with_end(settings: Settings, layout: Any, config: Any) -> Any:
    """The configuration with an end by `steps` and `cpu_s`, and without writers."""
    iterations = -(-settings.steps // config.learner.steps_of(layout))
    seconds = settings.cpu_s * (PATIENCE if settings.cpu_s >= DEADLINE_S else 1)
    return config.model_copy(update={"iterations": iterations, "time_limit_s": seconds, "writers": ()})


def cpu_s_of_all() -> float:
    """CPU seconds of this process, of those that descend from it, and of those that have ended."""
    import psutil

    spent = sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime for who in _SELF_AND_ENDED)
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
            spent += times.user + times.system + times.children_user + times.children_system
        except psutil.NoSuchProcess:
            continue  # its parent has its time now
    return spent


_SELF_AND_ENDED = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
