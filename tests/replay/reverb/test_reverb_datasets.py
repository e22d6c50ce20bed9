"""Datasets of Reverb's interface."""

import threading

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from gmi_drl.replay import reverb
from tests.replay.reverb.reverb_servers import served, uniform

SIGNATURE = {"a": reverb.TensorSpec((2,), np.int64), "b": (reverb.TensorSpec((2, 3), np.float32),)}


def filled(client, table, count):
    with client.trajectory_writer(2) as writer:
        for number in range(count + 1):
            writer.append({"a": number, "b": np.full(3, number, np.float32)})
            if number:
                trajectory = {"a": writer.history["a"][-2:], "b": [writer.history["b"][-2:]]}
                writer.create_item(table, number, trajectory)


def test_items_have_the_structure_of_the_signature_and_the_iteration_ends_with_the_limiters_time():
    with served(reverb.Table.queue("queue", 30, signature=SIGNATURE)) as (_, client):
        filled(client, "queue", 20)
        dataset = reverb.TrajectoryDataset.from_table_signature(
            client.server_address, "queue", 8, rate_limiter_timeout_ms=50
        )
        samples = list(dataset)
        assert [sample.data["a"].tolist() for sample in samples] == [[number, number + 1] for number in range(20)]
        assert samples[3].data["b"][0].tolist() == [[3.0] * 3, [4.0] * 3] and samples[3].info.priority == 4


def test_a_batch_of_no_items_is_refused():
    with served(reverb.Table.queue("queue", 30, signature=SIGNATURE)) as (_, client):
        dataset = reverb.TrajectoryDataset.from_table_signature(client.server_address, "queue", 8)
        with pytest.raises(ValueError, match="a batch has 1 item at least, not 0"):
            dataset.batch(0)


def test_batches_are_whole_and_all_that_was_wanted_is_asked_for():
    table = uniform("table", sampler=reverb.selectors.Fifo(), max_times_sampled=1, signature=SIGNATURE)
    with served(table) as (_, client):
        filled(client, "table", 50)
        dataset = reverb.TrajectoryDataset.from_table_signature(client.server_address, "table", 16, max_samples=22)
        batches = list(dataset.batch(8))
        assert [len(batch.data["a"]) for batch in batches] == [8, 8, 6]
        assert torch.cat([batch.data["a"] for batch in batches]).tolist() == [[one, one + 1] for one in range(22)]
        assert batches[0].data["b"][0].shape == (8, 2, 3) and batches[0].info.priority.tolist() == list(range(1, 9))
        assert table.info.current_size == 28, "no more than 22 were asked for"
        assert batches[1].info.key.shape == batches[1].info.table_size.shape == (8,)


def test_timesteps_come_one_by_one():
    with served(reverb.Table.queue("queue", 30)) as (_, client):
        filled(client, "queue", 5)
        shapes = {"a": (), "b": ((3,),)}
        dataset = reverb.TimestepDataset(
            client.server_address, "queue", {"a": np.int64, "b": (np.float32,)}, shapes, 1, rate_limiter_timeout_ms=50
        )
        steps = [sample.data["a"].item() for sample in dataset]
        assert steps == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
        filled(client, "queue", 2)
        assert [tuple(batch.data["b"][0].shape) for batch in dataset.batch(3)] == [(3, 3), (1, 3)]


def test_columns_without_steps_are_not_split():
    with served(uniform()) as (_, client):
        with client.trajectory_writer(num_keep_alive_refs=2) as writer:
            writer.append({"a": np.zeros(3, np.float32)})
            writer.create_item("table", 1.0, {"a": writer.history["a"][-1]})
            writer.flush()
        dataset = reverb.TimestepDataset(client.server_address, "table", {"a": np.float32}, {"a": ()}, 1)
        for split in (lambda: next(iter(dataset)), lambda: next(client.sample("table"))):
            with pytest.raises(ValueError, match="non timestep trajectory"):
                split()
        (item,) = client.sample("table", emit_timesteps=False)
        assert item.data[0].shape == (3,)


def test_workers_of_a_loader_each_have_their_part():
    with served(uniform(sampler=reverb.selectors.Fifo(), max_times_sampled=1)) as (_, client):
        filled(client, "table", 11)
        dataset = reverb.TrajectoryDataset(
            client.server_address, "table", [np.int64, np.float32], [(2,), (2, 3)], 1, max_samples=11
        )
        loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
        assert sorted(sample.data[0][0].item() for sample in loader) == list(range(11))


def test_items_of_other_shapes_or_types_are_refused_with_both():
    with served(reverb.Table.queue("queue", 9)) as (_, client):
        address = client.server_address
        for wrong in (np.zeros(3, np.float32), np.zeros(2)):
            client.insert(wrong, {"queue": 1.0})
            dataset = reverb.TrajectoryDataset(address, "queue", np.float32, (1, 2), 1)
            with pytest.raises(ValueError, match=r"column 0 of an item is .*, the dataset expects .*shape=\(1, 2\)"):
                next(iter(dataset))
        client.insert(np.zeros(3), {"queue": 1.0})
        client.insert(np.zeros(2), {"queue": 1.0})
        dataset = reverb.TrajectoryDataset(address, "queue", np.float64, (1, None), 2)
        with pytest.raises(ValueError, match=r"differ in column 0: float64\[1, 2\], float64\[1, 3\]"):
            next(iter(dataset.batch(2)))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"max_in_flight_samples_per_worker": 0}, "max_in_flight"),
        ({"num_workers_per_iterator": 0}, "num_workers"),
        ({"max_samples_per_stream": -2}, "max_samples_per_stream"),
        ({"rate_limiter_timeout_ms": -2}, ">= -1"),
        ({"max_samples": 0}, "max_samples"),
        ({"flexible_batch_size": 0}, "flexible"),
        ({"shapes": {"b": ()}}, "structure"),
    ],
)
def test_wrong_numbers_are_refused(changes, text):
    options = {"dtypes": {"a": np.int64}, "shapes": {"a": ()}, "max_in_flight_samples_per_worker": 1} | changes
    with pytest.raises(ValueError, match=text):
        reverb.TrajectoryDataset("localhost:1", "table", **options)


def test_a_dataset_needs_a_table_with_a_signature():
    with served(uniform()) as (_, client):
        make = reverb.TrajectoryDataset.from_table_signature
        with pytest.raises(ValueError, match="does not have a signature"):
            make(client.server_address, "table", 1)
        with pytest.raises(ValueError, match="Found: table"):
            make(client.server_address, "other", 1)


def test_batches_may_be_larger_than_what_the_limiter_allows_at_once():
    with served(reverb.Table.queue("queue", 4)) as (_, client):

        def feed():
            for number in range(10):
                client.insert(number, {"queue": 1.0})

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        dataset = reverb.TrajectoryDataset(client.server_address, "queue", np.int64, (1,), 8, max_samples=10)
        batches = list(dataset.batch(8))
        feeder.join(60)
        assert [batch.data.flatten().tolist() for batch in batches] == [list(range(8)), [8, 9]]
        assert [len(batch.info.key) for batch in batches] == [8, 2]


def test_a_batch_of_items_with_other_columns_is_refused():
    with served(reverb.Table.queue("queue", 2)) as (_, client):
        client.insert([1.0], {"queue": 1.0})
        client.insert([1.0, 2.0], {"queue": 1.0})
        dataset = reverb.TrajectoryDataset(client.server_address, "queue", [np.float64], [(1,)], 2)
        with pytest.raises(ValueError, match="1 or 2 columns"):
            next(iter(dataset.batch(2)))
