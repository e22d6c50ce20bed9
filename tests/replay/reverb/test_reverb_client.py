"""The client of Reverb's interface: what it inserts, samples and tells."""

import pickle
import threading

import numpy as np
import pytest
import torch

from gmi_drl.errors import GmiWarning
from gmi_drl.replay import reverb
from gmi_drl.replay.reverb import client as reverb_client
from tests.replay.reverb.reverb_servers import served, uniform


def test_items_of_any_shape_and_type_come_back_as_they_were_inserted():
    inserted = [
        np.ones((), np.int64),
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array([[True], [False]]),
        np.arange(4, dtype=np.uint8)[::2],
        np.array(3 + 4j),
        np.array(["a", "bcd"]),
        np.array(b"bytes"),
        np.zeros((0, 3), np.int16),
        torch.arange(3).to(torch.float16),
        np.array([1, 2], dtype=">f4"),
    ]
    with served(reverb.Table.queue("queue", 20)) as (_, client):
        for array in inserted:
            client.insert([array, 1.5], {"queue": 1.0})
        for array, [sample] in zip(inserted, client.sample("queue", len(inserted)), strict=True):
            np.testing.assert_array_equal(sample.data[0], array)
            assert sample.data[0].shape == tuple(array.shape) and sample.data[1] == 1.5
        assert np.asarray(inserted[-1]).dtype.byteorder == ">"


def test_what_cannot_be_stored_is_refused_before_anything_is_sent():
    with served(uniform()) as (_, client):
        with pytest.raises(ValueError, match="cannot be stored"):
            client.insert(object(), {"table": 1.0})
        with pytest.raises(ValueError, match="at least one"):
            client.insert(1, {})
        for priority in (-1.0, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="0 or more"):
                client.insert(1, {"table": priority})
        with pytest.raises(ValueError, match='"other"'):
            client.insert(1, {"other": 1.0})
        assert client.server_info()["table"].current_size == 0


def test_keys_have_64_bits():
    with served(uniform()) as (_, client):
        client.insert(1, {"table": 1.0})
        client.mutate_priorities("table", updates={2**63: 2.0, 2**64 - 1: 3.0}, deletes=[2**63 + 5])
        assert client.server_info()["table"].current_size == 1
        for key in (-1, 2**64):
            with pytest.raises(ValueError, match=f"64 bits, not {key}"):
                client.mutate_priorities("table", deletes=[key])


def test_the_info_of_a_sample_is_that_of_its_moment():
    queue = reverb.Table.queue("queue", 3)
    with served(queue, uniform(sampler=reverb.selectors.Prioritized(1.0))) as (_, client):
        for number in range(3):
            client.insert(number, {"queue": number + 0.5, "table": number})
        infos = [sample.info for sample in client.sample("queue", 3, emit_timesteps=False)]
        assert [info.table_size for info in infos] == [3, 2, 1]
        assert [info.priority for info in infos] == [0.5, 1.5, 2.5]
        assert {(info.probability, info.times_sampled) for info in infos} == {(1.0, 1)}
        assert isinstance(infos[0].key, int) and queue.info.current_size == 0
        sampled = [sample.info for [sample] in client.sample("table", 200)]
        assert {info.priority: round(info.probability, 6) for info in sampled} == {1.0: 0.333333, 2.0: 0.666667}
        assert max(info.times_sampled for info in sampled) > 50


def test_deletes_come_before_updates_and_unknown_keys_are_ignored():
    with served(uniform(sampler=reverb.selectors.MaxHeap())) as (_, client):
        for number in range(3):
            client.insert(number, {"table": number})
        top = next(client.sample("table", 1))[0].info.key
        client.mutate_priorities("table", updates={top: 9.0, 12345: 1.0}, deletes=[top, 777])
        [sample] = next(client.sample("table", 1))
        assert sample.data == [1] and client.server_info()["table"].current_size == 2
        with pytest.raises(ValueError, match="0 or more"):
            client.mutate_priorities("table", updates={sample.info.key: -1.0})
        client.reset("table")
        info = client.server_info()["table"]
        assert (info.current_size, info.num_unique_samples, info.rate_limiter_info.insert_stats.completed) == (0, 0, 0)


def test_errors_have_the_classes_of_dm_reverb():
    with served(uniform()) as (_, client):
        with pytest.raises(RuntimeError, match="no table 'other'"):
            next(client.sample("other"))
        with pytest.raises(ValueError, match="positive"):
            next(client.sample("table", 0))
        for wrong in ({"max_sequence_length": 0}, {"chunk_length": 3}, {"chunk_length": 0}, {"max_in_flight_items": 0}):
            with pytest.raises(ValueError, match="positive integer"):
                client.writer(**{"max_sequence_length": 2} | wrong)
        with pytest.raises(ValueError, match="positive integer"):
            client.trajectory_writer(0)
        with pytest.raises(ValueError, match="At least one config"):
            client.structured_writer([])
    with pytest.raises(reverb.DeadlineExceededError, match="ServerInfo"):
        client.server_info(timeout=0.2)
    assert issubclass(reverb.DeadlineExceededError, reverb.ReverbError)


def test_a_client_waits_for_a_server_that_starts_later():
    table = uniform()
    server = reverb.Server([uniform()])
    port = server.port
    server.stop()
    client, found = reverb.Client(f"localhost:{port}"), []
    thread = threading.Thread(target=lambda: found.append(next(client.sample("table"))[0].data))
    thread.start()
    with reverb.Server([table], port) as later:
        later.localhost_client().insert(7, {"table": 1.0})
        thread.join(60)
    assert found == [[7]]


def test_a_client_can_be_pickled_and_used_by_many_threads():
    with served(uniform(max_size=1000)) as (_, client):
        copied = pickle.loads(pickle.dumps(client))

        def write(number):
            with copied.writer(1) as writer:
                writer.append([number])
                writer.flush()
                writer.create_item("table", 1, 1.0)

        threads = [
            threading.Thread(target=lambda first=first: [write(first + n) for n in range(20)]) for first in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        info = client.server_info()["table"]
        assert info.current_size == info.num_episodes == 160


def test_samples_have_the_structure_of_the_signature_if_that_is_wanted():
    signature = {"b": (reverb.TensorSpec((2,), np.float32),), "a": reverb.TensorSpec((None,), np.int64)}
    with served(reverb.Table.queue("queue", 3, signature=signature)) as (_, client):
        with client.trajectory_writer(2) as writer:
            for number in range(2):
                writer.append({"x": number, "y": np.float32(number)})
            trajectory = {"a": writer.history["x"][:], "b": [writer.history["y"][:]]}
            writer.create_item("queue", 1.0, trajectory)
            writer.create_item("queue", 1.0, trajectory)
            with pytest.raises(ValueError, match=r"b/0 is float32\[1\], the table's signature .*shape=\(2,\)"):
                writer.create_item("queue", 1.0, {"a": trajectory["a"], "b": (writer.history["y"][-1:],)})
            with pytest.raises(ValueError, match="1 columns"):
                writer.create_item("queue", 1.0, trajectory["a"])
        one = next(client.sample("queue", emit_timesteps=False, unpack_as_table_signature=True))
        assert one.data["a"].tolist() == one.data["b"][0].tolist() == [0, 1]
        steps = next(client.sample("queue"))
        assert [[int(value) for value in step.data] for step in steps] == [[0, 0], [1, 1]]
        assert client.server_info()["queue"].signature == signature


def test_sampled_arrays_may_be_changed_without_changing_the_table():
    with served(uniform()) as (_, client):
        client.insert(np.zeros(3), {"table": 1.0})
        [sample] = next(client.sample("table"))
        sample.data[0][:] = 5
        assert next(client.sample("table"))[0].data[0].tolist() == [0, 0, 0]


def test_tables_of_a_restarted_server_have_their_own_signatures():
    with served(uniform(signature=reverb.TensorSpec((None,), np.float64))) as (server, client):
        assert client.signature("table").dtype == np.float64
    with served(uniform(signature=reverb.TensorSpec((None,), np.int64)), port=server.port):
        assert client.server_info()["table"].signature.dtype == client.signature("table").dtype == np.int64


def test_a_look_for_an_unknown_table_takes_nothing_from_other_threads(monkeypatch):
    with served(uniform()) as (_, client):
        client.insert(1.0, {"table": 1.0})
        known, usual = [], client.server_info
        monkeypatch.setattr(client, "server_info", lambda: (known.append(dict(client._signatures)), usual()))
        with pytest.raises(ValueError, match="The following tables exists: table"):
            client.signature("other")
        assert known == [{"table": None}]


def test_a_client_that_waits_for_a_server_says_why(monkeypatch):
    monkeypatch.setattr(reverb_client, "WARN_AFTER_S", 0.0)
    with served(uniform(), token="a" * 32) as (server, _):
        client = reverb.Client(f"localhost:{server.port}", token="b" * 32)
        with pytest.warns(GmiWarning, match="is the token right") as told, pytest.raises(reverb.DeadlineExceededError):
            client.server_info(0.5)
        assert len(told) == 1
