"""Tables and servers of Reverb's interface."""

import dataclasses
import tempfile

import numpy as np
import pytest

from gmi_drl.replay import reverb
from gmi_drl.replay.extensions import Extension
from tests.replay.reverb.reverb_servers import served, uniform


def test_a_table_tells_the_same_without_a_server_and_through_one():
    limiter = reverb.rate_limiters.SampleToInsertRatio(2.0, 3, (1.0, 9.0))
    signature = ({"a": reverb.TensorSpec((3, None), np.uint8, "a")}, [reverb.TensorSpec((), np.float32)])
    sampler = reverb.selectors.Prioritized(0.6)
    table = uniform(sampler=sampler, rate_limiter=limiter, max_times_sampled=4, signature=signature)
    before = table.info
    with served(table, reverb.Table.stack("stack", 2)) as (_, client):
        assert client.server_info()["table"] == table.info == before
        assert before.sampler_options.prioritized.priority_exponent == 0.6 and before.remover_options.fifo
        assert before.sampler_options.HasField("prioritized") and not before.sampler_options.HasField("fifo")
        assert before.rate_limiter_info.samples_per_insert == 2 and before.rate_limiter_info.max_diff == 9
        assert client.server_info()["stack"].sampler_options.lifo
        with pytest.raises(ValueError, match="has a server already"):
            reverb.Server([table])
        copied = table.replace(name="other", max_size=7)
        assert (copied.name, copied.info.max_size, copied.info.signature) == ("other", 7, signature)
    with pytest.raises(TypeError, match="no size"):
        table.replace(size=3)


def test_limits_are_told_while_a_server_runs():
    table = uniform(rate_limiter=reverb.rate_limiters.SampleToInsertRatio(1.0, 2, 2.0))
    assert table.can_insert(4) and not table.can_insert(5) and not table.can_sample(1)
    with served(table) as (_, client):
        client.insert(1, {"table": 1.0})
        client.insert(2, {"table": 1.0})
        assert table.can_insert(2) and not table.can_insert(3) and table.can_sample(2) and not table.can_sample(3)
        next(client.sample("table"))
        assert table.can_insert(3) and not table.can_sample(2)
        stats = table.info.rate_limiter_info
        assert (stats.insert_stats.completed, stats.sample_stats.completed) == (2, 1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: uniform(name=""), "nonempty"),
        (lambda: uniform(max_size=0), "positive"),
        (lambda: uniform(signature="no spec"), "Unsupported signature spec"),
        (lambda: reverb.Server([]), "At least one"),
        (lambda: reverb.Server([uniform(), uniform()]), "same name: table"),
        (lambda: reverb.Server([uniform()], host="0.0.0.0"), "token"),
        (lambda: reverb.Server([uniform()], memory_bytes=100, item_bytes=100), "half of the memory"),
        (lambda: reverb.rate_limiters.SampleToInsertRatio(0, 1, 5), "above 0"),
        (lambda: reverb.rate_limiters.MinSize(0), "1 at least"),
        (lambda: reverb.checkpointers.DefaultCheckpointer("there", group="people"), "group"),
    ],
)
def test_what_cannot_work_is_refused_with_a_value_error(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_tables_share_selectors_that_were_given_twice_no_further_than_their_settings():
    fifo = reverb.selectors.Fifo()
    tables = [reverb.Table(name, fifo, fifo, 2, reverb.rate_limiters.MinSize(1)) for name in "ab"]
    with served(*tables) as (_, client):
        for number in range(4):
            client.insert(number, {"a": 1.0} if number % 2 else {"a": 1.0, "b": 1.0})
        assert [int(next(client.sample(name))[0].data[0]) for name in "ab"] == [2, 0]


def test_episodes_are_counted_until_their_items_have_gone():
    with served(uniform(max_size=3)) as (_, client):
        with client.trajectory_writer(1) as writer:
            for _episode in range(3):
                for step in range(2):
                    writer.append(step)
                    writer.create_item("table", 1.0, writer.history[-1:])
                writer.end_episode()
        info = client.server_info()["table"]
        assert (info.current_size, info.num_episodes, info.num_deleted_episodes) == (3, 2, 1)


def test_extensions_run_with_each_operation():
    class Count(Extension):
        inserts = 0

        def inserted(self, slots):
            self.inserts += len(slots)

    count = Count()
    with served(uniform(extensions=[count])) as (_, client):
        client.insert(1, {"table": 1.0})
        assert count.inserts == 1


def test_a_server_begins_with_the_newest_checkpoint_of_its_folder(tmp_path):
    checkpointer = reverb.checkpointers.DefaultCheckpointer(str(tmp_path / "kept"))
    assert checkpointer.newest is None
    with served(uniform(), checkpointer=checkpointer) as (_, client):
        folders = []
        for number in range(3):
            client.insert([number, np.full(number, 0.5)], {"table": 1.0})
            folders.append(client.checkpoint())
        folder = folders[-1]
        assert len(set(folders)) == 3, "also within a second"
        client.insert(9, {"table": 1.0})
    assert str(checkpointer.newest) == folder
    with served(uniform(), checkpointer=checkpointer) as (server, client):
        info = client.server_info()["table"]
        assert info.current_size == info.num_episodes == 3 and info.rate_limiter_info.insert_stats.completed == 3
        found = {int(one.data[0]): len(one.data[1]) for [one] in client.sample("table", 50)}
        assert set(found.items()) <= {(0, 0), (1, 1), (2, 2)} and found
        server.stop()
        server.wait()
    again = reverb.checkpointers.DefaultCheckpointer(str(tmp_path / "other"), fallback_checkpoint_path=folder)
    with served(uniform(), checkpointer=again) as (_, client):
        assert client.server_info()["table"].current_size == 3
    with pytest.raises(ValueError, match="max_size"):
        reverb.Server([uniform(max_size=5)], checkpointer=checkpointer)


def test_names_of_dm_reverb_that_need_no_tensorflow_are_there():
    names = (
        "Client DeadlineExceededError ReplaySample ReverbError SampleInfo Server Table TimestepDataset TrajectoryColumn"
    )
    names += " TrajectoryDataset TrajectoryWriter Writer checkpointers errors rate_limiters selectors structured"
    assert set(names.split()) <= set(reverb.__all__)
    assert reverb.SampleInfo.zeros() == (0, 0.0, 0, 0.0, 0)
    assert dataclasses.is_dataclass(reverb.Table.queue("q", 1).info)


def test_tables_of_a_server_that_could_not_begin_are_for_another(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = uniform()
    with served(uniform()) as (server, _):
        before = sorted(tmp_path.iterdir())
        with pytest.raises(reverb.ReverbError, match="cannot listen"):
            reverb.Server([table], port=server.port)
        assert sorted(tmp_path.iterdir()) == before
    with served(table) as (_, client):
        client.insert(1.0, {"table": 1.0})
        assert table.info.current_size == 1


def test_what_fails_before_a_server_begins_leaves_nothing_and_takes_no_table_from_another(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table, never = uniform(), uniform("never", max_size=10, rate_limiter=reverb.rate_limiters.MinSize(100))
    with pytest.raises(ValueError, match="no sample would ever be served"):
        reverb.Server([table, never])
    with pytest.raises(ValueError, match="half of the memory"):
        reverb.Server([table], memory_bytes=100, item_bytes=100)
    assert not list(tmp_path.iterdir())
    with served(table) as (_, client):
        client.insert(1.0, {"table": 1.0})
        with pytest.raises(ValueError, match="table table has a server already"):
            reverb.Server([uniform("other"), table])
        assert table.info.current_size == 1
