"""Learning from a table of a replay server: what is written and read there, priorities, and checkpoints of both."""

import time

import pytest
import torch
from conftest import tiny_config, tiny_layout, two_cores
from roles.replay.line_task import Line

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import SACConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.replay import Field, MinSize, Prioritized, Signature
from gmi_drl.replay.batch import Batch, gather_items
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.selectors import Fifo
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.table import Table
from gmi_drl.roles.replay import server_ring
from gmi_drl.roles.replay.replica import ReplayReplica
from gmi_drl.roles.replay.ring_state import deal_anew
from gmi_drl.roles.replay.server_ring import windows_of
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.run.checkpoint import list_checkpoints, read_part
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.workload import TASK_SPECS

CPU, N = torch.device("cpu"), 4


def table_of(observations, actions, longest=2, fields=("obs", "action", "reward", "terminated")):
    known = {
        "obs": Field("obs", (observations,)),
        "action": Field("action", (actions,)),
        "reward": Field("reward"),
        "terminated": Field("terminated", (), torch.bool),
    }
    storage = make_storage(Signature([known[name] for name in fields]), 4096, longest=longest, fewest_blocks=16)
    made = {"sampler": Prioritized(1.0), "remover": Fifo(), "limiter": MinSize(8), "storage": storage}
    return Table("seen", storage.signature, max_size=2000, **made)


def learner_of(server, **replay):
    settings = ReplaySettings(**{"server": f"{server.address}/seen", "min_size": 30, "sampler": "prioritized"} | replay)
    return SACConfig(hidden=(16,), horizon=5, batch=8, replay=settings)


def replica_of(server, **replay):
    config, task = RunConfig(learner=learner_of(server, **replay)), Line(N, chooses=False)
    replica = ReplayReplica(task.spec, config, NoReduction(), num_env=N, group_num_env=N, device=CPU, seed=3)
    replica.attach_task(task, seed=4)
    return replica


def iterate(replica, times=1):
    for _ in range(times):
        stats = replica.iterate(lambda: Decision.GO_ON)
    return stats


def test_windows_are_summed_up_to_their_episodes_end():
    table = table_of(1, 1, longest=4)
    stream, gamma = Stream(table.storage), 0.5
    number = torch.arange(6.0)
    rows = {"obs": number[:, None], "action": -number[:, None], "reward": number, "terminated": number == 4}
    places = stream.append(rows)
    table.insert(places[:3], torch.tensor([4, 2, 4]), 1.0)
    records = table.contents.items.records[:3]
    batch = Batch(gather_items(table.storage, records), records, torch.ones(3), 3)
    found = {name: value.flatten().tolist() for name, value in windows_of(batch, gamma).items()}
    assert found["obs"] == [0, 1, 2] and found["action"] == [0, -1, -2]
    assert found["reward"] == [0 + 0.5 * 1 + 0.25 * 2, 1, 2 + 0.5 * 3 + 0.25 * 4]
    assert found["next/obs"] == [3, 2, 5] and found["discount"] == [0.125, 0.5, 0]


def test_a_learner_writes_its_steps_reads_them_and_sends_priorities_back(tmp_path):
    with Server([table_of(2, 1)], checkpoints=tmp_path) as server:
        replica, table = replica_of(server), server.tables[0]
        assert iterate(replica).metrics["replay_steps"] < 30 and replica.metrics()["updates"] == 0
        iterate(replica, 4)
        priorities = table.sample(200).priorities
        assert replica.metrics()["updates"] > 0 and (priorities != 1).any(), "priorities came back"
        rows = table.sample(200).rows.fields
        moved = (rows["obs"][:, 0, 0] + rows["action"][:, 0, 0].clamp(-1, 1)).clamp(-3, 3)
        assert torch.allclose(moved, rows["obs"][:, 1, 0]) and torch.equal(rows["reward"][:, 0], moved)
        replica.detach_task()


def test_batches_of_recorded_episodes_alone_ask_the_table_for_none(tmp_path):
    with Server([table_of(2, 1)], checkpoints=tmp_path) as server:
        ring = replica_of(server).ring
        assert not ring.can_sample(0), "it has fewer than min_size items"
        replica = replica_of(server)
        iterate(replica, 2)
        assert replica.ring.can_sample(0) and replica.ring._drawn is None


def test_batches_are_drawn_into_the_same_memory_so_that_graphs_over_it_hold(tmp_path):
    with Server([table_of(2, 1)], checkpoints=tmp_path) as server:
        replica = replica_of(server)
        iterate(replica, 4)
        first = replica.ring.sample(8)
        second = replica.ring.sample(8, out=first)
        assert second.rows is first.rows and second.fields["obs"] is first.fields["obs"]


def test_a_checkpoint_names_that_of_the_server_and_goes_on_with_no_other(tmp_path):
    with Server([table_of(2, 1)], checkpoints=tmp_path) as server:
        replica = replica_of(server)
        iterate(replica, 3)
        local, learner = replica.local_state(), replica.learner_state()
        kept = server.tables[0].size
        iterate(replica)
        replica.load_local_state(local)
    folder = tmp_path / f"{60:012d}"
    with Server([table_of(2, 1)], checkpoints=tmp_path, restore=folder) as server:
        other = replica_of(server)
        other.load_learner_state(learner)
        other.load_local_state(local)
        assert server.tables[0].size == kept
        iterate(other)
    words = r"server's of step 60, and that has 0: .*--restore FOLDER/000000000060"
    with Server([table_of(2, 1)], checkpoints=tmp_path) as server:
        other = replica_of(server)
        with pytest.raises(UsageError, match=words):
            other.load_local_state(local)
        with pytest.raises(UsageError, match=words):  # on another layout
            deal_anew(other.ring, [local, {}], first=0)
    with Server([table_of(2, 1)]) as server:
        with pytest.raises(UsageError, match="writes no checkpoints"):
            replica_of(server)
        assert "replay_server.step" not in replica_of(server, saved=False).local_state()


def test_a_table_that_cannot_be_learnt_from_and_settings_without_effect_are_told():
    lacking = table_of(2, 1, fields=("obs", "reward"))
    with Server([lacking]) as server, pytest.raises(UsageError, match="lacks action, terminated"):
        replica_of(server, saved=False)
    with Server([table_of(2, 1)]) as server:
        with pytest.raises(UsageError, match=r"up to 2 rows, learner\.replay\.n_step 3 needs 4"):
            replica_of(server, saved=False, n_step=3)
        learner, spec = learner_of(server, size=5000, next_obs="twice"), TASK_SPECS["ant"]
        words = [f"learner.replay.{name} has no effect with learner.replay.server" for name in ("size", "next_obs")]
        assert [line.partition(":")[0] for line in learner.check(spec, None)] == words
        assert learner.ring_bytes(spec, 64) == (0, 0)


@two_cores
def test_a_run_learns_from_a_server(tmp_path):
    spec = TASK_SPECS["ball_balance"]
    table, folder = table_of(spec.observation.size, spec.action.size), RunFolder(tmp_path / "run")
    folder.create()
    with Server([table], checkpoints=tmp_path / "kept") as server:
        config = tiny_config(iterations=4, checkpoint_every=4, learner=learner_of(server))
        train(resolve(tiny_layout(task="ball_balance"), config, folder))
        (*_, row) = read_metrics(folder.metrics_file)
        assert row["updates"] > 0 and row["replay_steps"] > 30
        last = list_checkpoints(folder.checkpoints)[-1]
        steps = [read_part(last, f"gmi-{number}").get("replay_server.step") for number in (0, 1)]
        assert steps[0] == 4 * 5 * 16 and steps[1] is None
        assert (tmp_path / "kept" / f"{int(steps[0]):012d}" / "shard_0").is_dir()


def test_the_next_batch_is_asked_for_while_one_is_learnt_from_and_none_beyond_an_iteration(tmp_path):
    with Server([table_of(2, 1)], checkpoints=tmp_path) as server:
        replica, table = replica_of(server), server.tables[0]
        iterate(replica, 3)
        ring, counters = replica.ring, table.limiter.counters
        ring._updates = 3
        assert ring.can_sample(8)
        before = counters.samples  # with the first batch
        batches = [ring.sample(8)]
        for ahead in (2, 3):
            deadline = time.monotonic() + 30
            while counters.samples < before + 8 * (ahead - 1) and time.monotonic() < deadline:
                time.sleep(0.005)
            assert counters.samples == before + 8 * (ahead - 1), "asked for, and no more than one"
            batches.append(ring.sample(8))
        assert ring.can_sample(8) and counters.samples == before + 8 * 3
        ring.update(batches[2].keys, torch.full((8,), 5.0))
        assert all(len(batch.keys) == 8 and torch.isfinite(batch.fields["obs"]).all() for batch in batches)
        replica.detach_task()


def test_a_batch_that_is_not_allowed_in_time_leaves_no_connection_open(monkeypatch):
    monkeypatch.setattr(server_ring, "WAIT_S", 0.01)
    with Server([table_of(2, 1)]) as server:
        replica = replica_of(server, saved=False)
        sampler = replica.ring._sampler_of(8)
        with pytest.raises(ReplayTimeoutError, match="were not allowed"):
            replica.ring.sample(8)
        assert not any(line.connection.framed.is_open for line in sampler._lines)
        replica.detach_task()
