"""Trainings by actor, policy and trainer workers over nodes of this machine."""

import os
import re
import signal
import time
from itertools import pairwise

import psutil
import pytest
from conftest import two_cores
from networks import needs_hosts, needs_relay, two_hosts
from test_decoupled_on_nodes import is_of, kill
from test_training_on_nodes import processes_of
from unshared import needs_mounts, unseen

from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError
from gmi_drl.launch.job import resolve
from gmi_drl.launch.nodes import accept_supervisors
from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
from gmi_drl.launch.training import train
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.run.checkpoint import read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics

NUM_ENV, HORIZON, STREAMS = 4, 8, Streams()
ACTOR, POLICY, TRAINER = ("simulator",), ("agent",), ("trainer",)


def layout_of(max_lag=0, streams=STREAMS, reduction="none", **roles):
    """Roles of the GMIs of each node, which take turns on its first core."""
    devices, ids = [], iter(range(100))
    for node, parts in roles.items():
        gmis = [GMI(id=next(ids), roles=role, num_env=NUM_ENV * ("simulator" in role), cores=(0,)) for role in parts]
        devices.append(Device(node=node, kind="cpu", gmis=tuple(gmis)))
    trainers = tuple(gmi.id for device in devices for gmi in device.gmis if gmi.roles == TRAINER)
    return Layout(
        task="ball_balance",
        template="workers",
        share_cores=True,
        devices=tuple(devices),
        groups={"trainers": GmiGroup(members=trainers, reduction=reduction)},
        channels=Channels(max_lag=max_lag),
        streams=streams,
    )


def start(path, layout, iterations=3, supervisors=None, **more):
    """Train with a memory, whose state comes with each request."""
    small = PPOConfig(hidden=(8,), horizon=HORIZON, minibatches=1, memory="gru", memory_size=8, sequence=4)
    config = RunConfig(iterations=iterations, checkpoint_every=3, hang_s=60.0, writers=(), learner=small)
    folder = RunFolder(path)
    folder.create()
    return folder, train(resolve(layout, config, folder), supervisors=supervisors or SubprocessSupervisors(), **more)


@two_cores
def test_what_is_learnt_is_the_same_wherever_actor_policy_and_trainer_are(tmp_path):
    """A single client and no lag: nothing is left to chance."""
    layouts = {
        "here": {"a": [ACTOR, POLICY, TRAINER]},
        "apart": {"a": [ACTOR], "b": [POLICY], "c": [TRAINER]},
    }
    learners = {}
    for name, nodes in layouts.items():
        folder, outcome = start(tmp_path / name, layout_of(**nodes))
        assert all(row["lag_max"] == 0 and row["answer_p50_s"] > 0 for row in read_metrics(folder.metrics_file))
        learners[name] = read_index(outcome.checkpoint)["learner"]
    assert len(set(learners.values())) == 1, learners
    assert processes_of(tmp_path) == []


@two_cores
def test_policy_workers_of_a_node_without_trainers_receive_each_version_once(tmp_path):
    """Two of them: the first passes it on. One actor of another node asks the one with fewer actors."""
    folder, outcome = start(tmp_path / "run", layout_of(1, a=[ACTOR, TRAINER], b=[ACTOR, POLICY, POLICY, ACTOR]))
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and rows[-1]["env_steps"] == 3 * 3 * NUM_ENV * HORIZON
    assert max(row["lag_max"] for row in rows) <= 1
    assert processes_of(tmp_path) == []


@two_cores
@pytest.mark.parametrize(
    ("gmi_id", "module", "said"),
    [
        (0, "roles.main", r"GMI 0 \(process \d+, node a\) was killed by SIGKILL"),
        (1, "roles.main", r"GMI 1 \(process \d+, node b\) was killed by SIGKILL"),
        (1, "proxy_main", r"the proxy of GMI 1 \(process \d+, node c\) was killed by SIGKILL"),
    ],
    ids=["actor", "policy-worker", "proxy"],
)
def test_a_death_is_an_error_that_names_who_died(tmp_path, gmi_id, module, said):
    def on_row(row):
        if row["iteration"] == 2:
            kill(tmp_path / "run", gmi_id, module)

    with pytest.raises(GmiError, match=said):
        start(tmp_path / "run", layout_of(a=[ACTOR], b=[POLICY], c=[TRAINER]), 10**6, on_row=on_row)
    assert processes_of(tmp_path) == []


@two_cores
def test_a_run_goes_on_without_an_actor_that_has_died_while_enough_are_left(tmp_path):
    """An update takes as many rollouts as before. The next death ends the run."""
    told = []

    def on_row(row):
        if row["iteration"] in (2, 4):
            kill(tmp_path / "run", {2: 3, 4: 2}[row["iteration"]], "roles.main")

    streams = Streams(fewest_actors=1)
    layout = layout_of(1, streams, a=[TRAINER, POLICY, ACTOR], b=[ACTOR])
    with pytest.raises(GmiError, match=r"GMI 2 \(process \d+, node a\) was killed by SIGKILL"):
        start(tmp_path / "run", layout, 10**6, on_row=on_row, on_restart=told.append)
    rows = read_metrics(RunFolder(tmp_path / "run").metrics_file)
    assert rows[3]["env_steps"] == 4 * 2 * NUM_ENV * HORIZON
    assert len(told) == 1 and told[0].startswith("GMI 3") and told[0].endswith("going on with 1 actor")
    assert processes_of(tmp_path) == []


@two_cores
@pytest.mark.parametrize(
    ("gmi_id", "nodes", "streams"),
    [
        (2, {"a": [TRAINER, POLICY], "b": [ACTOR]}, STREAMS),
        (1, {"a": [TRAINER], "b": [(*ACTOR, *POLICY)]}, None),
        (0, {"a": [ACTOR, TRAINER], "b": [POLICY]}, STREAMS),
    ],
    ids=["remote inference", "inline inference", "beside its trainer"],
)
def test_the_only_actor_is_started_again_by_its_host_and_nobody_else_ends(tmp_path, gmi_id, nodes, streams):
    """Without it nothing goes on: the last rows have rollouts of its successor."""

    def on_row(row):
        if row["iteration"] == 2:
            kill(tmp_path / "run", gmi_id, "roles.main")

    told, layout = [], layout_of(1, streams, **nodes)
    folder, outcome = start(tmp_path / "run", layout, 50, on_row=on_row, on_restart=told.append, restarts=1)
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and [row["iteration"] for row in rows] == list(range(1, 51))
    assert rows[-1]["env_steps"] == 50 * NUM_ENV * HORIZON and max(row["lag_max"] for row in rows) <= 1
    assert not folder.dropped_file.exists(), "no iteration was repeated"
    died = rf"GMI {gmi_id} \(process \d+, node {layout.device_of(gmi_id).node}\) was killed by SIGKILL"
    assert re.match(died, told[0]) and told[0].endswith(": started again alone, 0 restarts left") and len(told) == 1
    assert not any("Error" in log.read_text() for log in (folder.path / "logs").iterdir())
    assert processes_of(tmp_path) == []


@needs_mounts
@two_cores
def test_when_no_restart_is_left_an_actor_is_dropped_and_the_next_death_ends_the_run(tmp_path):
    """The host of the first does not see the run folder: what it prints goes into one log."""
    told, killed = [], []

    def on_row(row):
        gmi_id, actors = ((3, 2), (3, 2), (2, 1))[len(told)]
        if len(killed) == len(told) and row["actors"] == actors and (process := acting(gmi_id)):
            process.kill()
            killed.append(gmi_id)

    layout = layout_of(1, Streams(fewest_actors=1), a=[TRAINER, POLICY, ACTOR], b=[ACTOR])
    more = {"on_row": on_row, "on_restart": told.append, "restarts": 1}
    with pytest.raises(GmiError, match=r"GMI 2 \(process \d+, node a\) was killed by SIGKILL"):
        start(tmp_path / "run", layout, 10**6, unseen(tmp_path, "b"), **more)
    ends = "started again alone, 0 restarts left", "going on with 1 actor"
    assert len(told) == 2 and all(map(str.endswith, told, ends))
    assert killed == [3, 3, 2]
    assert processes_of(tmp_path) == []


def acting(gmi_id):
    """The process of a GMI of a run of this process, on whatever host; None if there is none."""
    children = psutil.Process().children(recursive=True)
    return next((process for process in children if is_running(process, gmi_id)), None)


def is_running(process, gmi_id):
    try:
        return is_of(process, gmi_id, "roles.main") and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


class Later(SubprocessSupervisors):
    """Node b comes when `come` is called."""

    def start(self, node, order):
        if node != "b":
            return super().start(node, order)
        self.come = lambda: setattr(self.late, "process", super(Later, self).start(node, order))
        self.late = LateSupervisor()
        return self.late


class LateSupervisor:
    """See `SupervisorHandle`."""

    process = None

    def why_ended(self):
        return self.process and self.process.why_ended()

    def end(self, wait_s=20.0):
        if self.process:
            self.process.end(wait_s)


@two_cores
def test_a_node_that_comes_later_joins_and_the_run_ends_in_order_after_the_first_actor_has_died(tmp_path, monkeypatch):
    monkeypatch.setattr(accept_supervisors, "LATE_S", 0.1)
    told, later, killed = [], Later(), []

    def on_row(row):
        if row["iteration"] == 2:
            later.come()
        if not killed and "node b joins the run with GMI 3" in told and is_acting(tmp_path / "run", 3):
            killed.append(row["iteration"])
            kill(tmp_path / "run", 2, "roles.main")
        if killed and row["iteration"] == killed[0] + 40:
            os.kill(os.getpid(), signal.SIGTERM)

    layout = layout_of(1, Streams(fewest_actors=1), a=[TRAINER, POLICY, ACTOR], b=[ACTOR])
    _, outcome = start(
        tmp_path / "run", layout, 10**6, later, on_row=on_row, on_restart=told.append, on_warning=told.append
    )
    assert outcome.state == "stopped" and outcome.iteration >= killed[0] + 40
    assert told[0].startswith("node b is not here yet") and told[1] == "node b joins the run with GMI 3"
    assert told[2].startswith("GMI 2") and told[2].endswith("going on with 1 actor") and len(told) == 3
    assert processes_of(tmp_path) == []


def is_acting(path, gmi_id):
    """Whether a GMI's process, not its proxy, has been there for some seconds, in which it has begun to act."""
    now = time.time()
    return any(
        is_of(process, gmi_id, "roles.main") and now - process.create_time() > 6 for process in processes_of(path)
    )


@needs_hosts
@two_cores
def test_a_node_of_actors_that_is_lost_without_a_word_is_dropped(tmp_path):
    """Its link goes down for good: nobody hears that its processes end."""
    told, cut = [], []
    with two_hosts() as hosts:

        def on_row(row):
            if row["iteration"] == 3:
                hosts.link("b", "down")
            if told:
                cut.append(row["iteration"])
            if len(cut) == 20:
                os.kill(os.getpid(), signal.SIGTERM)

        layout = layout_of(1, Streams(fewest_actors=1), a=[TRAINER, POLICY, ACTOR], b=[ACTOR, ACTOR])
        _, outcome = start(tmp_path / "run", layout, 10**6, supervisors=hosts, on_row=on_row, on_restart=told.append)
    assert outcome.state == "stopped" and len(cut) >= 20
    assert [line[:5] for line in told] == ["GMI 3", "GMI 4"] and told[1].endswith("going on with 1 actor")


@needs_hosts
@two_cores
def test_a_link_of_a_stream_and_of_parameters_that_is_down_for_five_seconds_is_survived(tmp_path):
    """The actor and its trainer lose their policy worker; both rows and numbers go on."""
    rows = []
    with two_hosts() as hosts:
        layout = layout_of(1, a=[ACTOR, TRAINER], b=[POLICY])
        _, outcome = start(tmp_path / "run", layout, 20, supervisors=hosts, on_row=hosts.cutting("b", 5, rows))
    assert outcome.state == "done" and len(rows) == 20
    assert max(row["lag_max"] for row in rows) <= 1 and max(row["answer_p99_s"] for row in rows) > 1


@needs_hosts
@needs_relay
@two_cores
def test_far_actors_over_a_slow_link_that_stands_still_for_a_second_are_slower_and_right(tmp_path):
    """A single client and no lag: what is learnt is what it is on one host."""
    rows, at_s = [], []
    with two_hosts() as hosts, hosts.slowed(one_way_ms=5):

        def on_row(row):
            rows.append(row)
            at_s.append(time.monotonic())
            if len(rows) == 2:
                hosts.pause(1.0)

        far = layout_of(a=[POLICY, TRAINER], b=[ACTOR])
        _, outcome = start(tmp_path / "far", far, 6, supervisors=hosts, on_row=on_row)
    _, near = start(tmp_path / "near", layout_of(a=[POLICY, TRAINER, ACTOR]), 6)
    assert min(row["answer_p50_s"] for row in rows) > 0.01
    assert max(later - earlier for earlier, later in pairwise(at_s)) > 0.8
    learners = [read_index(each.checkpoint)["learner"] for each in (outcome, near)]
    assert outcome.state == near.state == "done" and learners[0] == learners[1]
