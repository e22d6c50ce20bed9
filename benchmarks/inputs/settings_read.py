"""Finds which settings reach GMIs, with the real launchers, up to where the process of a GMI would start.

In its place the configuration that it would read is read, and a fake GMI dies at once; with one restart all start
twice. Supervisors of nodes are threads. Their order passes through the class of Ray's actors, as on a cluster.
"""

import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import torch

from gmi_drl import scheduler
from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.learners.rsl_rl_keys import of_the_run
from gmi_drl.config.run_config import RunConfig, apply_settings
from gmi_drl.config.settings import leaves
from gmi_drl.errors import GmiDiedError, GmiError
from gmi_drl.hardware.cluster import Cluster, Network, Nodes
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.launch.job import resolve
from gmi_drl.launch.launchers import LOCAL, RAY, layout_for
from gmi_drl.launch.nodes.accept_supervisors import introduction
from gmi_drl.launch.nodes.supervisor import NodeSupervisor
from gmi_drl.launch.nodes.versions import versions_here
from gmi_drl.launch.ray.actor import SupervisorActor
from gmi_drl.launch.training import train
from gmi_drl.layout.layout import Layout
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.run.checkpoint import list_checkpoints
from gmi_drl.run.folder import RunFolder
from gmi_drl.templates import TEMPLATES
from gmi_drl.templates.over_nodes import OverNodes
from gmi_drl.workload import TASK_SPECS

OWN_FOLDER = "ray, folder not shared"
LAUNCHERS = (LOCAL, RAY, OWN_FOLDER)
STARTS = tuple(f"{launcher}{start}" for launcher in LAUNCHERS for start in ("", ", restarted"))
PASS_ON = "import sys; sys.stdout.write(sys.stdin.readline())"


class Read(NamedTuple):
    """What a GMI reads: its configuration, and its deadline."""

    gmi_id: int
    config: RunConfig
    hang_s: float


class Recorder:
    """Reads what GMIs would read, instead of starting them."""

    def __init__(self) -> None:
        self.read: list[Read] = []

    @contextmanager
    def processes_here(self) -> Iterator[Callable[..., Any]]:
        """See `gmi_process.processes_here`."""
        yield self._start

    def _start(self, order: dict[str, Any], *more: object, **module: object) -> "Dead":
        manager = SimpleNamespace(run_folder=Path(order["run_folder"]), device=torch.device("cpu"))
        config = GMI_manager.configure(cast("GMI_manager", manager))
        self.read.append(Read(order["gmi"], config, order["hang_s"]))
        return Dead()


class Dead:
    """A GMI that was killed at once. See `GMIHandle`."""

    pid, where, log = 0, "", Path("log")

    def __init__(self) -> None:
        self.connection_fd, self.exit_fd = (os.eventfd(1) for _ in range(2))

    def receive(self) -> bytes:
        """See `GMIHandle`."""
        return b""

    def exit_code(self, wait_s: float) -> int:
        """See `GMIHandle`."""
        return -signal.SIGKILL

    def close(self) -> None:
        """See `GMIHandle`."""
        os.close(self.connection_fd)
        os.close(self.exit_fd)

    def last_words(self, most: int) -> list[str]:
        """See `GMIHandle`."""
        return []

    def nothing(self, *given: object) -> None:
        """Ignores messages, as it has ended."""

    say = ask_to_end = end = nothing


class Agents:
    """Starts supervisors of nodes as threads. See `SupervisorStarter`."""

    address = "127.0.0.1"

    def start(self, node: str, order: bytes) -> "ThreadSupervisor":
        """Pass the order through the class of Ray's actor, and run the supervisor."""
        _, (line,) = SupervisorActor().run(["-c", PASS_ON], order)
        told = json.loads(line)
        connection = socket.create_connection(told["launcher"])
        cpus = sorted(os.sched_getaffinity(0))
        connection.sendall(introduction(told["token"], node, "machine", cpus, versions_here()))
        return ThreadSupervisor(NodeSupervisor(node, connection))


class ThreadSupervisor:
    """See `SupervisorHandle`."""

    def __init__(self, agent: NodeSupervisor) -> None:
        self._thread = threading.Thread(target=agent.run, daemon=True)
        self._thread.start()

    def why_ended(self) -> str | None:
        """See `SupervisorHandle`."""
        return None if self._thread.is_alive() else "it has ended"

    def end(self, wait_s: float = 0.0) -> None:
        """See `SupervisorHandle`: it ends with its connection."""


def two_nodes(layout: Layout, kind: str) -> Layout:
    """This layout on each of two nodes, or on one if the learner trains on one host only."""
    if LEARNERS.find(kind).on_one_host:
        return layout_for(RAY, layout)
    node = Node(name="node", cpu=Cpu(cores=1, memory_gib=8.0))
    cluster = Cluster(network=Network(gbit_per_s=1, round_trip_ms=1), nodes=(Nodes(count=2, node=node),))
    return scheduler.plan(
        TASK_SPECS[str(layout.task)],
        cluster.whole,
        num_env=8,
        gmis_per_gpu=len(layout.gmis),
        template=OverNodes(TEMPLATES.find(str(layout.template)), cluster),
        share_cores=True,
    )


def read_by_gmis(launcher: str, config: RunConfig, folder: RunFolder) -> tuple[list[Read], list[Read]]:
    """The configurations that all GMIs read: at the first start, and after a death.

    Args:
        launcher: One of `LAUNCHERS`.
        config: The new configuration of the run.
        folder: A run with a checkpoint.
    """
    layout, _ = folder.read_setup()
    if launcher != LOCAL:
        layout = two_nodes(layout, config.learner.kind)
    recorder = Recorder()
    with ExitStack() as life:
        life.enter_context(patch.dict(os.environ))  # supervisors set it
        for place in ("hosts", "nodes.node_host"):
            life.enter_context(patch(f"gmi_drl.launch.{place}.processes_here", recorder.processes_here))
        life.enter_context(patch.object(NodeSupervisor, "_watch_input", lambda agent: None))  # it is this process's
        if launcher == OWN_FOLDER:
            life.enter_context(patch("gmi_drl.launch.nodes.node_host._sees", lambda *folder: False))
        life.enter_context(suppress(GmiDiedError))  # the second death, after which there is no restart
        train(
            resolve(layout, config, folder),
            restarts=1,
            on_restart=lambda line: None,
            resume=list_checkpoints(folder.checkpoints)[-1],
            supervisors=None if launcher == LOCAL else Agents(),
        )
    count = len(layout.gmis)
    return recorder.read[:count], recorder.read[count:]


def together(base: RunConfig, values: dict[str, str], layout: Layout) -> list[tuple[RunConfig, list[str]]]:
    """Configurations that together set all of these settings, each with those that it sets."""
    marks = {place: leaf.setting for place, leaf in leaves(base)}
    left = [place for place in values if (mark := marks.get(of_the_run(place))) and not mark.idle]
    made = []
    while left:
        config, taken = base, list[str]()
        for place in left:
            with suppress(GmiError):
                other = apply_settings(config, [f"{of_the_run(place)}={values[place]}"])
                resolve(layout, other, RunFolder(Path("run")))
                config, taken = other, [*taken, place]
        if not taken:
            break
        made.append((config, taken))
        left = [place for place in left if place not in taken]
    return made


def arrived(originals: RunFolder, values: dict[str, str], scratch: Path) -> dict[str, list[str]]:
    """For each setting, by launcher and start (`STARTS`): how many GMIs read the new value.

    Args:
        originals: A run with a checkpoint.
        values: New values by the places of settings.
        scratch: For copies of the run.
    """
    layout, base = originals.read_setup()
    told: dict[str, list[str]] = {}
    for config, places in together(base.model_copy(update={"iterations": 9}), values, layout):
        for place in places:
            told[place] = []
        for launcher in LAUNCHERS:
            shutil.copytree(originals.path, scratch)
            starts = read_by_gmis(launcher, config, RunFolder(scratch))
            shutil.rmtree(scratch)
            for place in places:
                told[place] += [compared(of_the_run(place), config, read) for read in starts]
    return told


def compared(place: str, sent: RunConfig, read: list[Read]) -> str:
    """How many GMIs read the new value of a setting, as text."""
    value = dict(leaves(sent))[place].value
    have = [dict(leaves(one.config))[place].value == value for one in read]
    if place == "hang_s":
        have = [is_same and one.hang_s == value for is_same, one in zip(have, read, strict=True)]
    return f"{sum(have)} of {len(have)}"
