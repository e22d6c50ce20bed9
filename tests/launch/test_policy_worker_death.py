"""A policy worker that dies while actor and trainer go on, in real processes."""

import os
import signal
from contextlib import suppress

from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.run.checkpoint import read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics


def layout():
    """An actor, its policy worker and a trainer, which wait for each other."""
    roles, cores = (("simulator",), ("agent",), ("trainer",)), allowed_cores()
    gmis = tuple(
        GMI(id=number, roles=some, cores=(cores[number % len(cores)],), num_env=0 if number else 4)
        for number, some in enumerate(roles)
    )
    return Layout(
        task="ball_balance",
        template="workers",
        devices=(Device(kind="cpu", gmis=gmis),),
        groups={"trainers": GmiGroup(members=(2,))},
        channels=Channels(max_lag=0),
        streams=Streams(),
        share_cores=True,
    )


def kill(path, gmi_id):
    """Kill a GMI of a run, found by the log that it writes into."""
    log = os.path.realpath(path / "logs" / f"gmi-{gmi_id}.log")
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # processes of others, and those that end meanwhile
            if os.readlink(f"/proc/{pid}/fd/1") == log:
                os.kill(int(pid), signal.SIGKILL)


def trained(path, killed=None):
    """The digest of the learner after a run of one client, whose policy worker may be killed; and what was told."""
    small = PPOConfig(hidden=(8,), horizon=8, minibatches=1, memory="gru", memory_size=8, sequence=4)
    config = RunConfig(iterations=3, checkpoint_every=3, hang_s=60.0, writers=(), learner=small)
    folder, told = RunFolder(path), []
    folder.create()

    def on_row(row):
        if killed is not None and row["iteration"] == 1:
            kill(path, killed)

    outcome = train(resolve(layout(), config, folder), restarts=1, on_row=on_row, on_restart=told.append)
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and [row["iteration"] for row in rows] == [1, 2, 3]
    assert all(row["lag_max"] == 0 and row["rows"] == 4 for row in rows)
    return read_index(outcome.checkpoint)["learner"], told


def test_a_policy_worker_that_is_killed_changes_no_number_of_a_seeded_run(tmp_path):
    """Its successor answers what was open, by the noise and the states of memories that lie in the slots."""
    expected, _ = trained(tmp_path / "whole")
    digest, told = trained(tmp_path / "killed", killed=1)
    assert digest == expected
    assert len(told) == 1 and told[0].startswith("GMI 1") and "started again alone" in told[0]
