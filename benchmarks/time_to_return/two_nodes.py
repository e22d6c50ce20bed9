"""CartPole on two unlike nodes, one of which acts: by Ray, by our own agents, and with nodes that come and go.

    python benchmarks/time_to_return/two_nodes.py learn                     # continues where it was stopped
    python benchmarks/time_to_return/two_nodes.py learn --seeds 1 --seconds 20      # a trial
    python benchmarks/time_to_return/two_nodes.py tell
    python benchmarks/time_to_return/two_nodes.py draw

Two actors; one policy worker and one trainer on the first node. Nodes are network namespaces of this machine, so root
is needed. Ray's are started as docs/guides/several_machines.md says (`ray start`, `gmi-drl train --launcher ray`). The
elastic side has its actors on two nodes, and one actor is enough: the second joins when the others have been started
for 20 s, the first leaves without a word after 60 s; a trial has a part of these times. The last tenth of each side is
to be within the range of one host's seeds. How runs are counted: `trainings.py`; CPU seconds are of all processes,
Ray's daemons too, from the first update on.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import every_stream
from trainings import DEADLINE_S, Settings, Trainings, Update, our_config
from worker_trainings import ACTS, ANSWERS, TRAINS, by_layout, cpu_s_of_all, layout_of, with_end

from gmi_drl.benchmarks.peers import REPOSITORY
from gmi_drl.errors import GmiError, MachineError
from gmi_drl.launch.nodes.supervisor_starters import END_S, SubprocessSupervisor, SubprocessSupervisors

TASKS = {"CartPole": replace(every_stream.TASKS["CartPole"], steps=200_000)}
ACTORS = 2
ONE, OWN, RAY, ELASTIC = "one host", "two nodes", "two nodes, Ray", "elastic"
SIDES = {
    ONE: [[TRAINS, ANSWERS, ACTS, ACTS]],
    OWN: [[TRAINS, ANSWERS], [ACTS, ACTS]],
    RAY: [[TRAINS, ANSWERS], [ACTS, ACTS]],
    ELASTIC: [[TRAINS, ANSWERS], [ACTS], [ACTS]],
}
"""The workers of each host."""

NODES = "abc"
LEAVES, JOINS = "b", "c"
JOINS_S, LEAVES_S = 20.0, 60.0
LOOK_S = 0.2
"""Between looks for new rows of a training by command."""


def side_layout(settings: Settings, side: str) -> Any:
    """The layout of a side: all have the same actors, and as many environments in all as the settings say."""
    from gmi_drl.layout.channels import Streams

    name = every_stream.NAMES[settings.env_id]
    layout = layout_of(name, settings.num_env // ACTORS, SIDES[side], every_stream.MAX_LAG)
    if len(layout.devices) == 1:
        return layout
    named = [device.model_copy(update={"node": node}) for device, node in zip(layout.devices, NODES, strict=False)]
    streams = Streams(fewest_actors=1) if side == ELASTIC else layout.streams
    return layout.model_copy(update={"devices": tuple(named), "streams": streams})


def train(settings: Settings, side: str, seed: int) -> Iterator[Update]:
    """Train by a side."""
    layout, config = side_layout(settings, side), our_config(settings, seed)
    if side == ONE:
        yield from by_layout(settings, layout, config)
    elif side == RAY:
        yield from by_ray(settings, layout, config)
    else:
        networks = of_tests("networks")
        with networks.some_hosts([*layout.nodes]) as hosts:
            if side == OWN:
                yield from by_layout(settings, layout, config, supervisors=hosts)
            else:
                yield from elastic(settings, layout, config, hosts)


def elastic(settings: Settings, layout: Any, config: Any, hosts: SubprocessSupervisors) -> Iterator[Update]:
    """Train while a node of actors joins and another one leaves.

    Raises:
        GmiError: if the training has ended before.
    """
    part = min(1.0, settings.cpu_s / (LEAVES_S + JOINS_S)) if settings.cpu_s < DEADLINE_S else 1.0
    told = list[str]()

    def tell(line: str) -> None:
        told.append(line)
        print(line, flush=True)

    nodes = ComingAndGoing(hosts, part * JOINS_S, part * LEAVES_S)
    yield from by_layout(settings, layout, config, supervisors=nodes, tell=tell)
    came = any(f"node {JOINS} joins the run" in line for line in told)
    if not came or not any("going on with" in line for line in told):
        have = "; ".join(told) or "nothing was told"
        raise GmiError(f"no node has joined and left before the training ended ({have}): give it more --seconds")


class ComingAndGoing:
    """Starts supervisors of nodes, that of `JOINS` later; that of `LEAVES` is killed. See `SupervisorStarter`.

    Args:
        nodes: Starts them.
        joins_s: Seconds until it joins.
        leaves_s: Seconds until it is killed.
    """

    def __init__(self, nodes: SubprocessSupervisors, joins_s: float, leaves_s: float) -> None:
        self._nodes, self._joins_s, self._leaves_s = nodes, joins_s, leaves_s

    @property
    def address(self) -> str:
        """See `SupervisorStarter`."""
        return self._nodes.address

    def start(self, node: str, order: bytes) -> "Node":
        """See `SupervisorStarter`."""
        joins_s = self._joins_s if node == JOINS else 0.0
        return Node(self._nodes, node, order, joins_s, self._leaves_s if node == LEAVES else None)


class Node:
    """A supervisor that starts, or is killed, after a time. See `SupervisorHandle`."""

    def __init__(
        self, nodes: SubprocessSupervisors, node: str, order: bytes, joins_s: float, leaves_s: float | None
    ) -> None:
        self._supervisor: SubprocessSupervisor | None = None
        self._timers = list[threading.Timer]()
        self._start = lambda: setattr(self, "_supervisor", nodes.start(node, order))
        if joins_s:
            self._later(joins_s, self._start)
        else:
            self._start()
        if leaves_s is not None:
            self._later(leaves_s, self._kill)

    def why_ended(self) -> str | None:
        """See `SupervisorHandle`."""
        return self._supervisor.why_ended() if self._supervisor else None

    def end(self, wait_s: float = END_S) -> None:
        """See `SupervisorHandle`."""
        for timer in self._timers:
            timer.cancel()
            timer.join()
        if self._supervisor:
            self._supervisor.end(wait_s)

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, do)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _kill(self) -> None:
        assert self._supervisor is not None
        self._supervisor.process.kill()


def by_ray(settings: Settings, layout: Any, config: Any) -> Iterator[Update]:
    """Train by the commands of the guide over two of Ray's nodes. Yields the updates when it has ended.

    Raises:
        GmiError: if the training fails.
    """
    from gmi_drl.files import dump_yaml
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.run.metrics import read_metrics

    of_tests("networks")
    updates, at_s = list[Update](), list[float]()
    more = {"prefix": "gmi-", "dir": "/tmp", "ignore_cleanup_errors": True}  # short: it holds sockets
    with TemporaryDirectory(**more) as path, of_tests("ray_hosts").ray_hosts(path) as cluster:
        files = {name: Path(path) / f"{name}.yaml" for name in ("layout", "config")}
        files["layout"].write_text(dump_yaml(layout))
        files["config"].write_text(dump_yaml(with_end(settings, layout, config)))
        run, log = RunFolder(Path(path) / "run"), Path(path) / "log.txt"
        words = ("train", files["layout"], "--config", files["config"], "--launcher", "ray", "--run-dir", run.path)
        with log.open("w") as output:
            training = cluster.gmi_drl(*words, stdout=output, stderr=subprocess.STDOUT)
            is_over = False
            while not is_over:
                is_over = training.poll() is not None
                time.sleep(0 if is_over else LOOK_S)
                rows = read_metrics(run.metrics_file)[len(updates) :] if run.metrics_file.exists() else []
                at_s += [cpu_s_of_all()] * len(rows)
                updates += [
                    Update(row["env_steps"], spent_s - at_s[0], int(row["episodes"]), row["return_sum"])
                    for row, spent_s in zip(rows, at_s[len(updates) :], strict=True)
                ]
        if training.returncode:
            raise GmiError(f"gmi-drl train --launcher ray ended with {training.returncode}: {log.read_text()[-2000:]}")
    yield from updates


def of_tests(name: str) -> Any:
    """A module of the tests, which know how to make hosts.

    Raises:
        MachineError: if hosts cannot be made here.
    """
    folder = str(REPOSITORY / "tests" / "launch" / "nodes")
    if folder not in sys.path:
        sys.path.append(folder)
    import networks

    if why := networks.obstacle():
        raise MachineError(f"nodes are network namespaces: {why}")
    return __import__(name)


TRAININGS = Trainings(__file__, "two_nodes", TASKS, tuple(SIDES), train)

if __name__ == "__main__":
    TRAININGS.main(__doc__.splitlines()[0])
