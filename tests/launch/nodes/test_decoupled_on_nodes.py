"""Asynchronous trainings over nodes of this machine: agents and trainers on any."""

import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest
from conftest import two_cores
from networks import needs_hosts, two_hosts
from test_training_on_nodes import processes_of
from unshared import needs_mounts, unseen

from gmi_drl.config.learners import A3CConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError
from gmi_drl.launch.job import resolve
from gmi_drl.launch.known_rooms import PROXY_BYTES
from gmi_drl.launch.nodes.node_host import PROXY_MODULE
from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
from gmi_drl.launch.training import train
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.run.checkpoint import read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics

NUM_ENV, HORIZON = 4, 8
AGENT, TRAINER = ("simulator", "agent"), ("trainer",)


def layout_of(reduction="none", channels=None, **roles):
    """Roles of the GMIs of each node, which take turns on its first core."""
    devices, ids = [], iter(range(100))
    for node, parts in roles.items():
        gmis = [GMI(id=next(ids), roles=role, num_env=NUM_ENV if role == AGENT else 0, cores=(0,)) for role in parts]
        devices.append(Device(node=node, kind="cpu", gmis=tuple(gmis)))
    trainers = tuple(gmi.id for device in devices for gmi in device.gmis if gmi.roles == TRAINER)
    return Layout(
        task="ant",
        template="decoupled",
        share_cores=True,
        devices=tuple(devices),
        groups={"trainers": GmiGroup(members=trainers, reduction=reduction)},
        channels=channels or Channels(max_lag=1),
    )


def config_of(iterations=4, **more):
    small = A3CConfig(hidden=(16,), horizon=HORIZON, minibatches=1, schedule="fixed")
    return RunConfig(iterations=iterations, checkpoint_every=iterations, hang_s=60.0, learner=small, **more)


def start(path, layout, config, **more):
    folder = RunFolder(path)
    folder.create()
    return folder, train(resolve(layout, config, folder), supervisors=SubprocessSupervisors(), **more)


@two_cores
def test_what_is_learnt_is_the_same_on_one_host_and_on_two(tmp_path):
    """A single agent and no lag: nothing is left to chance."""
    channels = Channels(max_lag=0)
    learners = []
    for name, nodes in (("here", {"a": [AGENT, TRAINER]}), ("there", {"a": [AGENT], "b": [TRAINER]})):
        _, outcome = start(tmp_path / name, layout_of(**nodes, channels=channels), config_of())
        learners.append(read_index(outcome.checkpoint)["learner"])
    assert learners[0] == learners[1]


@two_cores
def test_two_trainers_learn_from_an_agent_of_another_node_and_a_resumed_run_goes_on(tmp_path):
    layout = layout_of(a=[TRAINER, TRAINER], b=[AGENT], reduction="MPR-shm")
    folder, outcome = start(tmp_path / "run", layout, config_of(3))
    again = train(resolve(layout, config_of(6), folder), resume=outcome.checkpoint, supervisors=SubprocessSupervisors())
    rows = read_metrics(folder.metrics_file)
    assert again.state == "done" and [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[-1]["env_steps"] == 6 * 2 * NUM_ENV * HORIZON  # a rollout for each trainer
    assert max(row["lag_max"] for row in rows) <= 1 and not any(deaths_in(row) for row in rows)
    assert read_index(again.checkpoint)["learner"] != read_index(outcome.checkpoint)["learner"]
    assert processes_of(tmp_path) == []


def deaths_in(row):
    """Rollouts that agents left unfinished; in the last row others are dropped that nobody needed any more."""
    return {cause: count for cause, count in row["dropped"].items() if cause != "experience ended"}


def kill(path, gmi_id, module, within_s=60.0):
    """Kill a GMI, or who stands in for it, as soon as it has its name."""
    deadline = time.monotonic() + within_s
    while not (named := [process for process in processes_of(path) if is_of(process, gmi_id, module)]):
        assert time.monotonic() < deadline, f"no process of GMI {gmi_id} by {module} in {within_s:g} s"
        time.sleep(0.02)
    for process in named:
        process.kill()


def is_of(process, gmi_id, module):
    line = " ".join(process.cmdline())
    return f"GMI {gmi_id} of" in line and module in line


@two_cores
@pytest.mark.parametrize(
    ("gmi_id", "module", "said"),
    [
        (2, "roles.main", r"GMI 2 \(process \d+, node b\) was killed by SIGKILL"),
        (0, "roles.main", r"GMI 0 \(process \d+, node a\) was killed by SIGKILL"),
        (2, "proxy_main", r"the proxy of GMI 2 \(process \d+, node a\) was killed by SIGKILL"),
    ],
    ids=["agent", "trainer", "stand-in"],
)
def test_a_death_is_an_error_that_names_who_died(tmp_path, gmi_id, module, said):
    def on_row(row):
        if row["iteration"] == 2:
            kill(tmp_path / "run", gmi_id, module)

    with pytest.raises(GmiError, match=said):
        start(tmp_path / "run", layout_of(a=[TRAINER, AGENT], b=[AGENT]), config_of(10**6), on_row=on_row)
    assert processes_of(tmp_path) == []


@two_cores
def test_an_agent_of_another_node_is_started_again_by_its_host_while_the_other_goes_on(tmp_path):
    """Its proxy is the same process."""
    told, proxies = [], set()

    def on_row(row):
        if row["iteration"] == 2:
            kill(tmp_path / "run", 2, "roles.main")
        proxies.update(process.pid for process in standing_in())

    config = config_of(60)
    layout = layout_of(a=[TRAINER, AGENT], b=[AGENT, AGENT])
    folder, outcome = start(tmp_path / "run", layout, config, restarts=1, on_row=on_row, on_restart=told.append)
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and [row["iteration"] for row in rows] == list(range(1, 61))
    assert len(told) == len(proxies) == 1 and told[0].endswith("started again alone, 0 restarts left")
    assert {cause for row in rows for cause in deaths_in(row)} <= {"GMI 2 ended"} and processes_of(tmp_path) == []


@two_cores
@pytest.mark.parametrize("when", ["on_start", "on_row"], ids="killed {}".format)
def test_the_death_of_the_only_stand_in_is_told_at_once_wherever_it_stood(tmp_path, when):
    """Also before it has met its agent, and though the trainer has lost all that act."""

    killed = []

    def deed(*row):
        if not killed:  # rows that were sent before may come after
            killed.append(kill(tmp_path / "run", 1, "proxy_main"))

    died = r"^the proxy of GMI 1 \(process \d+, node a\) was killed by SIGKILL"
    with pytest.raises(GmiError, match=died) as caught:
        start(tmp_path / "run", layout_of(a=[TRAINER], b=[AGENT]), config_of(10**6), **{when: deed})
    assert caught.value.gmi_id == 1, "its agent, for whom --restarts goes on"
    assert processes_of(tmp_path) == []


@pytest.mark.starts_gmis  # a fork shares its memory with its parent
@two_cores
def test_a_stand_in_takes_as_much_memory_as_is_reckoned_with(tmp_path):
    """What it shares with the GMIs counts for each in equal parts, and the channels, which are reckoned apart, not."""
    taken = []

    def measure(row):
        for process in standing_in():
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            taken.append(
                sum(1024 * int(re.search(rf"{kind}: *(\d+) kB", rollup)[1]) for kind in ("Pss_Anon", "Pss_File"))
            )

    start(tmp_path / "run", layout_of(a=[TRAINER], b=[AGENT]), config_of(), on_row=measure)
    assert PROXY_BYTES / 2 < max(taken) < PROXY_BYTES


@needs_mounts
@two_cores
def test_a_stand_in_prints_into_a_log_of_its_own_also_where_its_host_does_not_see_the_folder(tmp_path, monkeypatch):
    def abort(row):  # Python tells of it in the log
        for process in standing_in():
            process.send_signal(signal.SIGABRT)

    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    folder = RunFolder(tmp_path / "run")
    folder.create()
    with pytest.raises(GmiError, match=r"the proxy of GMI 1 .* was killed by SIGABRT") as caught:
        layout = layout_of(a=[TRAINER], b=[AGENT])
        train(resolve(layout, config_of(10**6), folder), supervisors=unseen(tmp_path, "a"), on_row=abort)
    log = folder.path / "logs" / "gmi-1-proxy.log"
    assert f"its log is {log}\n  | " in str(caught.value) and "Fatal Python error: Aborted" in log.read_text()


def standing_in():
    """Who stands in for agents of runs of this process."""
    return [one for one in psutil.Process().children(recursive=True) if PROXY_MODULE in " ".join(words_of(one))]


def words_of(process):
    """Its command line; empty once it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class Watched(SubprocessSupervisors):
    """Remembers the agent of node b."""

    def start(self, node, order):
        started = super().start(node, order)
        if node == "b":
            self.of_b = started.process
        return started


BOTH = {"a": [AGENT, TRAINER], "b": [TRAINER, AGENT]}


@two_cores
@pytest.mark.parametrize("left", [{"a": [TRAINER, AGENT], "b": [AGENT]}, BOTH], ids=["of-agents", "with-a-pool"])
def test_a_run_that_loses_a_node_goes_on_with_the_others(tmp_path, left):
    folder, told, stopped, starter = RunFolder(tmp_path / "run"), [], [], Watched()
    folder.create()

    def on_row(row):
        if row["iteration"] == 3 and not told:
            starter.of_b.kill()
        if told and not stopped:  # without it
            stopped.append(os.kill(os.getpid(), signal.SIGTERM))

    config = config_of(10**6).model_copy(update={"checkpoint_every": 2})
    layout = layout_of(**left, reduction="HAR" if left is BOTH else "none")
    outcome = train(
        resolve(layout, config, folder), restarts=1, on_restart=told.append, on_row=on_row, supervisors=starter
    )
    assert outcome.state == "stopped" and "was lost with its node: going on from iteration" in told[0]
    (saved,) = re.findall(r"going on from iteration (\d+)", told[0])
    numbers = [row["iteration"] for row in read_metrics(folder.metrics_file)]
    assert numbers == sorted(set(numbers)) and numbers[0] == 1 and outcome.iteration > int(saved)


@two_cores
def test_trainers_of_two_nodes_learn_alike_from_agents_of_three(tmp_path):
    """A checkpoint is made only where all trainers hold the same learner, bit for bit."""
    folder, outcome = start(tmp_path / "run", layout_of(**BOTH, c=[AGENT], reduction="HAR"), config_of(4))
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and [row["iteration"] for row in rows] == [1, 2, 3, 4]
    assert rows[-1]["env_steps"] == 4 * 2 * 2 * NUM_ENV * HORIZON  # two rollouts for each of two trainers
    assert max(row["lag_max"] for row in rows) <= 1 and not any(deaths_in(row) for row in rows)
    assert int(outcome.checkpoint.name) == 4 and processes_of(tmp_path) == []


@two_cores
@pytest.mark.parametrize("gmi_id", [0, 3, 2], ids=["agent-of-a", "agent-of-b", "trainer-of-b"])
def test_a_death_in_either_pool_ends_both_and_is_told(tmp_path, gmi_id):
    def on_row(row):
        if row["iteration"] == 2:
            kill(tmp_path / "run", gmi_id, "roles.main")

    with pytest.raises(GmiError, match=rf"GMI {gmi_id} \(process \d+, node {'aabb'[gmi_id]}\) was killed by SIGKILL"):
        start(tmp_path / "run", layout_of(**BOTH, reduction="HAR"), config_of(10**6), on_row=on_row)
    assert processes_of(tmp_path) == []


def test_trainers_without_agents_are_refused_with_the_remedy():
    layout = layout_of(a=[AGENT, TRAINER], b=[TRAINER], reduction="HAR")
    with pytest.raises(GmiError, match="needs an agent for the trainers of each node, b: put agents there, or more on"):
        resolve(layout, config_of(), RunFolder(Path("run")))


@needs_hosts
@two_cores
def test_a_link_to_an_agent_that_is_down_for_five_seconds_is_survived(tmp_path):
    rows = []
    with two_hosts() as hosts:
        folder, cut = RunFolder(tmp_path / "run"), hosts.cutting("b", 5, rows)
        folder.create()
        outcome = train(
            resolve(layout_of(a=[TRAINER], b=[AGENT]), config_of(20), folder), supervisors=hosts, on_row=cut
        )
    assert outcome.state == "done" and len(rows) == 20
    assert not any(deaths_in(row) or row["lag_max"] > 1 for row in rows)
