"""Sides that are trainings by workers, on the cores of this process, for a number of seconds."""

from itertools import cycle
from statistics import fmean
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Sample
from gmi_drl.benchmarks.cases.common.decoupled_run import BUSY_S, after_warm_up

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.hardware.node import Node
    from gmi_drl.layout.layout import Layout, Role

WARM_UP_S, QUICK_WARM_UP_S = 4.0, 0.5

MEANS = ("sim_s", "act_s", "wait_s", "learn_s", "lag_mean", "rows", "rows_p95", "answer_p50_s", "answer_p99_s")
"""Numbers of rows that samples have as means, where a row has them."""


def layout_of(
    task: str,
    num_env: int,
    *,
    actors: int,
    policies: int = 0,
    trainers: int = 1,
    ring: int = 1,
    wait_ms: float = 1.0,
    max_lag: int | None = None,
    cores: int,
    are_free: bool = False,
) -> "Layout":
    """Actors, from the first core on, and policy workers and trainers, from the last core back.

    Actors act for themselves where there are no policy workers. With more workers than cores these are shared: each
    worker is pinned to one, or, if they `are_free`, may use all, with one thread of torch.
    """
    from gmi_drl.layout.channels import Channels, Streams
    from gmi_drl.layout.layout import GMI, Device, Layout
    from gmi_drl.templates import WORKERS
    from gmi_drl.templates.template import all_in_one

    acts: tuple[Role, ...] = ("simulator",) if policies else ("simulator", "agent")
    answers: tuple[Role, ...] = ("agent",)
    trains: tuple[Role, ...] = ("trainer",)
    others = [answers] * policies + [trains] * trainers
    own = [
        GMI(id=number, roles=acts, num_env=num_env, ring=ring, cores=(core,))
        for number, core in zip(range(actors), cycle(range(cores)))
    ]
    own += [
        GMI(id=actors + number, roles=roles, cores=(core,))
        for (number, roles), core in zip(enumerate(others), cycle(reversed(range(cores))))
    ]
    if are_free and len(own) > cores:
        own = [gmi.model_copy(update={"cores": tuple(range(cores)), "threads": 1}) for gmi in own]
    training = [[gmi.id for gmi in own if gmi.roles == trains]]
    node = _this_node_of_cores()
    return Layout(
        task=task,
        template=WORKERS.name,
        share_cores=len(own) > cores,
        devices=(Device(kind="cpu", gmis=tuple(own)),),
        groups=all_in_one(training, WORKERS.usual(training, node, "process")),
        channels=Channels() if max_lag is None else Channels(max_lag=max_lag),
        streams=Streams(wait_ms=wait_ms) if policies else None,
    )


def rates(layout: "Layout", config: "RunConfig", seconds: float, warm_up_s: float = WARM_UP_S) -> Sample:
    """Train, and measure the steps per second that trainers learn from; details have means of the rows.

    `cpu_s_per_million_steps` are seconds for which the cores were busy, with other programs.

    Raises:
        GmiError: if there were fewer than two updates after the warm-up.
    """
    used = after_warm_up(layout, config, seconds, warm_up_s)
    (first_s, first), *_, (last_s, last) = used
    details = {name: fmean(row[name] for _, row in used) for name in MEANS if name in last}
    steps = last["env_steps"] - first["env_steps"]
    details["cpu_s_per_million_steps"] = 1e6 * (last[BUSY_S] - first[BUSY_S]) / steps
    return Sample(steps / (last_s - first_s), details)


def _this_node_of_cores() -> "Node":
    from gmi_drl.gmi.inventory import this_node

    return this_node().model_copy(update={"gpus": None})
