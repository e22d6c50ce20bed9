"""The writers of Reverb's interface: histories, trajectories, and what is sent."""

import time

import numpy as np
import pytest

from gmi_drl.replay import reverb
from tests.replay.reverb.reverb_servers import served, uniform


def contents(client, table, count):
    return [sample.data for sample in client.sample(table, count, emit_timesteps=False)]


def test_overlapping_trajectories_are_stored_once():
    with served(reverb.Table.queue("queue", 1000)) as (server, client):
        step = np.arange(1000.0)
        with client.trajectory_writer(10) as writer:
            for number in range(100):
                writer.append({"step": step + number})
                if number >= 9:
                    writer.create_item("queue", 1.0, writer.history["step"][-10:])
        received = max(one.framed.received for one in server._server._loop.connections.values())
        assert 100 * step.nbytes < received < 1.2 * 100 * step.nbytes, "each step of 10 items went once"
        for number, [found] in enumerate(contents(client, "queue", 91)):
            np.testing.assert_array_equal(found, np.stack([step + number + more for more in range(10)]))


def test_items_that_cross_blocks_are_written_again_and_right():
    tables = [reverb.Table.queue("queue", 10_000)]
    with served(*tables, memory_bytes=2**20, item_bytes=2**14) as (_, client):
        numbers = np.random.default_rng(0).integers(1, 120, 600)
        with client.trajectory_writer(20) as writer:
            for number, size in enumerate(numbers):
                writer.append({"size": np.full(4, size), "number": number})
                if number >= 19:
                    length = int(size) % 19 + 1
                    columns = [
                        writer.history["number"][-length:],
                        writer.history["size"][-1],
                        writer.history["number"][-20::7],
                    ]
                    writer.create_item("queue", 1.0, columns)
                if number % 50 == 49:
                    writer.flush()
                    for _ in range(31 if number == 49 else 50):
                        last, size, every = next(client.sample("queue", emit_timesteps=False)).data
                        assert last.tolist() == list(range(last[-1] - len(last) + 1, last[-1] + 1))
                        assert set(size.tolist()) == {numbers[last[-1]]} and len(last) == size[0] % 19 + 1
                        assert every.tolist() == list(range(last[-1] - 19, last[-1] + 1, 7))


def test_an_item_that_is_too_large_is_refused_with_the_numbers_and_the_writer_goes_on():
    with served(uniform(), memory_bytes=2**20, item_bytes=2**14) as (_, client):
        with pytest.raises(ValueError, match=r"up to 16384 are allowed.*item_bytes"):
            client.insert(np.zeros(2**14, np.uint8), {"table": 1.0})
        client.insert(np.zeros(2**13, np.uint8), {"table": 1.0})
        assert client.server_info()["table"].current_size == 1


def test_steps_that_no_item_has_are_not_sent():
    with served(uniform()) as (server, client), client.trajectory_writer(1) as writer:
        for _ in range(10):
            writer.append(np.zeros(10_000))
        writer.create_item("table", 1.0, writer.history[-1:])
        writer.flush()
        assert max(one.framed.received for one in server._server._loop.connections.values()) < 100_000


def test_columns_may_be_sparse_and_fields_may_come_later():
    with served(reverb.Table.queue("queue", 10)) as (_, client), client.trajectory_writer(3) as writer:
        with pytest.raises(RuntimeError, match="append"):
            _ = writer.history
        writer.append({"a": 1})
        writer.append({"a": 2, "b": 20, "c": None}, partial_step=True)
        with pytest.raises(ValueError, match=r"\('b',\) has already been set"):
            writer.append({"b": 21}, partial_step=True)
        assert writer.episode_steps == 1
        writer.append({"c": 200})
        assert writer.episode_steps == 2 and len(writer.history["b"]) == 2
        with pytest.raises(ValueError, match="None"):
            writer.history["b"][:]
        with pytest.raises(ValueError, match="None"):
            writer.history["a"][-3:]
        writer.create_item(
            "queue", 1.0, [writer.history["b"][-1:], writer.history["c"][1], writer.history["a"][[1, 0]]]
        )
        writer.flush()
        assert [column.tolist() for column in contents(client, "queue", 1)[0]] == [[20], 200, [2, 1]]
        with pytest.raises(
            ValueError, match=r"wrong dtype provided for column \('a',\). Got double but expected int64"
        ):
            writer.append({"a": 1.0})
        with pytest.raises(ValueError, match=r"Got \[2\] which is incompatible with \[\]"):
            writer.append({"a": np.array([1, 2])})


def test_history_forgets_and_items_of_what_is_forgotten_are_refused():
    with served(uniform()) as (_, client), client.trajectory_writer(2) as writer:
        writer.configure(("long",), num_keep_alive_refs=4, max_chunk_length=None)
        for number in range(3):
            writer.append({"short": number, "long": number})
            if number == 0:
                first = writer.history["short"][0]
        assert writer.history["long"][0].numpy() == 0 and writer.history["short"][-2:].numpy().tolist() == [1, 2]
        with pytest.raises(ValueError, match="forgotten"):
            writer.create_item("table", 1.0, first)
        with pytest.raises(RuntimeError, match="expired"):
            first.numpy()
        with pytest.raises(TypeError, match="TrajectoryColumn"):
            writer.create_item("table", 1.0, [1])
        with pytest.raises(ValueError, match="None"):
            writer.history["short"][0]
        with pytest.raises(ValueError, match="max_chunk_length"):
            writer.configure(("long",), num_keep_alive_refs=4, max_chunk_length=5)
        writer.end_episode()
        assert writer.episode_steps == 0 and len(writer.history["long"]) == 0


def test_columns_of_a_trajectory_have_shapes_types_and_values():
    with served(uniform()) as (_, client), client.trajectory_writer(3) as writer:
        for number in range(3):
            writer.append(np.full(2, number, np.float32))
        column = writer.history[:]
        assert (
            column.shape == (3, 2) and column[1].shape == (2,) and column.dtype == np.float32 and len(column[1:]) == 2
        )
        np.testing.assert_array_equal(column[[0, 2]].numpy(), [[0, 0], [2, 2]])


def test_flush_waits_for_the_limiter_as_long_as_it_may():
    with served(reverb.Table.queue("queue", 2)) as (_, client), client.trajectory_writer(1) as writer:
        for number in range(4):
            writer.append(number)
            writer.create_item("queue", 1.0, writer.history[-1])
        writer.flush(block_until_num_items=2, timeout_ms=60_000)
        with pytest.raises(reverb.DeadlineExceededError, match="not acknowledged"):
            writer.flush(timeout_ms=50)
        with pytest.raises(ValueError, match=">= 0"):
            writer.flush(-1)
        with pytest.raises(reverb.DeadlineExceededError):
            writer.end_episode(timeout_ms=10)
        assert writer.episode_steps == 0
        assert [int(data[0]) for data in contents(client, "queue", 4)] == [0, 1, 2, 3]
        writer.flush(timeout_ms=60_000)


def test_items_are_on_their_way_without_a_flush_when_time_has_passed():
    with served(uniform()) as (_, client), client.trajectory_writer(1) as writer:
        for _ in range(2):
            time.sleep(0.02)
            writer.append(1)
            writer.create_item("table", 1.0, writer.history[-1:])
        assert next(client.sample("table"))[0].data == [1]


def test_the_older_writer_makes_items_of_the_last_steps():
    with served(reverb.Table.queue("queue", 10)) as (_, client):
        with client.writer(3, max_in_flight_items=2) as writer:
            writer.append([0, {"b": 0.5}])
            with pytest.raises(ValueError, match="more than the 1 steps"):
                writer.create_item("queue", 2, 1.0)
            writer.append_sequence([np.array([1, 2]), np.array([1.5, 2.5])])
            with pytest.raises(ValueError, match="3 arrays"):
                writer.append([1, 2, 3])
            for length in (3, 1, 2):
                writer.create_item("queue", length, 1.0)
        with pytest.raises(ValueError, match="closed"):
            writer.__enter__()
        found = [[column.tolist() for column in data] for data in contents(client, "queue", 3)]
        assert found == [[[0, 1, 2], [0.5, 1.5, 2.5]], [[2], [2.5]], [[1, 2], [1.5, 2.5]]]


def test_a_writer_whose_block_was_left_by_an_error_begins_anew():
    with served(reverb.Table.queue("queue", 10)) as (_, client):
        writer = client.trajectory_writer(2)
        with pytest.raises(KeyError), writer:
            writer.append(1)
            writer.create_item("queue", 1.0, writer.history[-1:])
            raise KeyError
        client.insert(5, {"queue": 1.0})
        with writer:
            writer.append(2)
            writer.create_item("queue", 1.0, writer.history[-2:])
        found = sorted(
            data[0].tolist() for data in contents(client, "queue", client.server_info()["queue"].current_size)
        )
        assert found[-1] == [5] and [1, 2] in found


def test_items_of_a_writer_that_is_closed_without_a_flush_do_not_come_later():
    with served(uniform()) as (_, client):
        writer = client.trajectory_writer(1)
        writer.append(1)
        writer.create_item("table", 1.0, writer.history[-1:])
        writer.close()
        client.insert(2, {"table": 1.0})
        assert client.server_info()["table"].current_size == 1
        assert next(client.sample("table"))[0].data == [2]


def test_writers_one_after_the_other_go_on_in_one_block():
    with served(uniform(max_size=500), memory_bytes=2**20, item_bytes=2**17) as (_, client):
        for number in range(300):
            with client.writer(1) as writer:
                writer.append(number)
                writer.create_item("table", 1, 1.0)
        info = client.server_info()["table"]
        assert info.current_size == info.num_episodes == 300, "8 blocks were enough"
