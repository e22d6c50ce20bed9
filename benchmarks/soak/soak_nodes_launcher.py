"""The launcher of `soak_nodes.py`: trains over nodes a and b until it is stopped, or resumes for two iterations.

python benchmarks/soak/soak_nodes_launcher.py RUN ray|ADDRESS,SPACE,SPACE [resume] [restarts] [decoupled]

It prints the iteration of each row, and dropped experience. With `restarts` it restarts after one death.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmi_drl.config.learners import LearnerConfig
    from gmi_drl.launch.nodes.supervisor_starters import SupervisorStarter
    from gmi_drl.layout.layout import Layout

RAY = "ray"
HANG_S = 20.0
"""Seconds that GMIs wait for one that is stopped."""
EVERY = 5
"""Iterations between two checkpoints."""


@contextmanager
def agents_of(how: str, layout: "Layout") -> "Iterator[SupervisorStarter | None]":
    """Starts supervisors by Ray, or as processes in the namespaces."""
    from gmi_drl.launch.launchers import supervisors_for
    from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors

    if how == RAY:
        with supervisors_for(RAY, layout) as agents:
            yield agents
        return
    address, *spaces = how.split(",")
    yield SubprocessSupervisors(
        {node: ["ip", "netns", "exec", space] for node, space in zip("ab", spaces, strict=True)}, address
    )


def holistic() -> "tuple[Layout, LearnerConfig]":
    """A layout of two GMIs on each node that learn together."""
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout

    devices = tuple(
        Device(
            node=node,
            kind="cpu",
            gmis=tuple(GMI(id=2 * place + number, num_env=8, cores=(0,)) for number in (0, 1)),
        )
        for place, node in enumerate("ab")
    )
    everyone = GmiGroup(members=(0, 1, 2, 3), reduction="HAR")
    layout = Layout(task="ant", template="TCG_EX", share_cores=True, devices=devices, groups={"trainers": everyone})
    return layout, PPOConfig(horizon=4, epochs=2, minibatches=2)


def decoupled() -> "tuple[Layout, LearnerConfig]":
    """A layout whose GMI 0 trains on node a and GMI 1 acts there; GMI 2 acts on node b."""
    from gmi_drl.config.learners import A3CConfig
    from gmi_drl.layout.channels import Channels
    from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout

    trainer = GMI(id=0, roles=("trainer",), num_env=0, cores=(0,))
    near, far = (GMI(id=number, roles=("simulator", "agent"), num_env=8, cores=(0,)) for number in (1, 2))
    layout = Layout(
        task="ant",
        template="decoupled",
        share_cores=True,
        devices=(Device(node="a", kind="cpu", gmis=(trainer, near)), Device(node="b", kind="cpu", gmis=(far,))),
        groups={"trainers": GmiGroup(members=(0,), reduction="none")},
        channels=Channels(max_lag=2),
    )
    return layout, A3CConfig(hidden=(64,), horizon=16, minibatches=1)


def main() -> None:
    """Train."""
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.launch.job import resolve
    from gmi_drl.launch.training import train
    from gmi_drl.run.checkpoint import list_checkpoints
    from gmi_drl.run.folder import RunFolder

    path, how, *more = sys.argv[1:]
    layout, learner = decoupled() if "decoupled" in more else holistic()
    folder = RunFolder(Path(path))
    saved = list_checkpoints(folder.checkpoints)[-1] if "resume" in more else None
    config = RunConfig(
        iterations=int(saved.name) + 2 if saved else 10**6, checkpoint_every=EVERY, hang_s=HANG_S, learner=learner
    )
    if saved is None:
        folder.create()
    with agents_of(how, layout) as agents:
        train(
            resolve(layout, config, folder),
            restarts=int("restarts" in more),
            on_restart=lambda line: print(line, file=sys.stderr, flush=True),
            resume=saved,
            supervisors=agents,
            on_row=lambda row: print(row["iteration"], row.get("dropped") or "", flush=True),
        )


if __name__ == "__main__":
    main()
