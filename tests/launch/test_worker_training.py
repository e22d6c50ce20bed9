"""Trainings of actor, policy and trainer workers, in real processes."""

import os
import signal
from contextlib import suppress

import pytest

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

ASKS, ACTS, SERVES, TRAINS = ("simulator",), ("simulator", "agent"), ("agent",), ("trainer",)


def layout_of(*roles, ring=1, max_lag=1):
    cores = allowed_cores()
    gmis = tuple(
        GMI(
            id=number,
            roles=some,
            cores=(cores[number % len(cores)],),
            **({"num_env": 4, "ring": ring} if "simulator" in some else {}),
        )
        for number, some in enumerate(roles)
    )
    trainers = tuple(gmi.id for gmi in gmis if gmi.roles == TRAINS)
    return Layout(
        task="ball_balance",
        template="workers",
        devices=(Device(kind="cpu", gmis=gmis),),
        groups={"trainers": GmiGroup(members=trainers)},
        channels=Channels(max_lag=max_lag),
        streams=Streams() if SERVES in roles else None,
        share_cores=True,
    )


@pytest.mark.parametrize(
    ("roles", "ring", "learner"),
    [
        ((ASKS, ASKS, SERVES, TRAINS), 2, {}),
        ((ASKS, ACTS, SERVES, TRAINS), 1, {"memory": "gru", "memory_size": 8, "sequence": 4}),
    ],
    ids=["served", "served and inline, with memories"],
)
def test_workers_train_and_keep_to_their_lag(tmp_path, roles, ring, learner):
    small = PPOConfig(hidden=(8,), horizon=8, minibatches=1, **learner)
    config = RunConfig(iterations=4, checkpoint_every=4, hang_s=60.0, writers=(), learner=small)
    folder = RunFolder(tmp_path / "run")
    folder.create()
    outcome = train(resolve(layout_of(*roles, ring=ring), config, folder))
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and [row["iteration"] for row in rows] == [1, 2, 3, 4]
    assert all(row["lag_max"] <= 1 and row["rows"] >= 4 // ring for row in rows)


def kill(path, gmi_id):
    """Kill a GMI of a run, found by the log that it writes into."""
    log = os.path.realpath(path / "logs" / f"gmi-{gmi_id}.log")
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # processes of others, and those that end meanwhile
            if os.readlink(f"/proc/{pid}/fd/1") == log:
                os.kill(int(pid), signal.SIGKILL)


def trained(path, killed=None):
    """The digest of the learner after a run of one client, whose policy worker may be killed; and what was told."""
    config = RunConfig(iterations=4, checkpoint_every=4, hang_s=60.0, learner=PPOConfig(hidden=(8,), horizon=8))
    folder, told = RunFolder(path), []
    folder.create()

    def on_row(row):
        if killed is not None and row["iteration"] == 2:
            kill(path, killed)

    job = resolve(layout_of(ASKS, SERVES, TRAINS, max_lag=0), config, folder)
    outcome = train(job, restarts=1, on_row=on_row, on_restart=told.append)
    assert outcome.state == "done" and [row["iteration"] for row in read_metrics(folder.metrics_file)] == [1, 2, 3, 4]
    return read_index(outcome.checkpoint)["learner"], told


def test_a_policy_worker_that_is_killed_changes_no_number_of_a_seeded_run(tmp_path):
    expected, _ = trained(tmp_path / "whole")
    digest, told = trained(tmp_path / "killed", killed=1)
    assert digest == expected
    assert len(told) == 1 and told[0].startswith("GMI 1") and "started again alone" in told[0]
