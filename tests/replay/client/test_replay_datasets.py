import pytest
import torch
from torch.utils.data import DataLoader

from gmi_drl.errors import UsageError
from gmi_drl.replay.client.datasets import ServerDataset
from gmi_drl.replay.limiters import Queue
from gmi_drl.replay.selectors import Fifo
from tests.replay.servers import long_table, served, steps


def queue():
    return long_table(sampler=Fifo(), limiter=Queue(50), max_times_sampled=1)


def dataset(server, **options):
    return ServerDataset(server.address, "numbers", timeout_s=0.2, max_in_flight=1, **options)


def test_batches_items_and_steps_are_those_of_the_table_in_order():
    with served(queue()) as (server, client):
        for numbers in ((1, 2), (3,), (4, 5, 6), (7,)):
            client.insert(steps(*numbers), {"numbers": float(numbers[0])})
        ((fields, told),) = dataset(server, batch=4)
        assert fields["number"].tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6], [7, 0, 0]]
        assert told["priority"].tolist() == [1, 3, 4, 7] and told["times_sampled"].tolist() == [1] * 4
        for numbers in ((1, 2), (3, 4, 5)):
            client.insert(steps(*numbers), {"numbers": 2.0})
        found = list(dataset(server, of="items", batch=1))
        assert [fields["number"].tolist() for fields, _ in found] == [[1, 2], [3, 4, 5]]
        for numbers in ((1, 2), (3, 4, 5)):
            client.insert(steps(*numbers), {"numbers": float(numbers[0])})
        found = [
            (int(fields["number"]), float(told["priority"])) for fields, told in dataset(server, of="steps", batch=2)
        ]
        assert found == [(1, 1), (2, 1), (3, 3), (4, 3), (5, 3)]


def test_each_worker_of_a_loader_has_a_connection_and_no_item_comes_twice():
    with served(queue()) as (server, client):
        for number in range(40):
            client.insert(steps(number), {"numbers": 1.0})
        loader = DataLoader(dataset(server, of="items", batch=2), batch_size=4, num_workers=2)
        found = torch.cat([fields["number"].flatten() for fields, _ in loader])
        assert sorted(found.tolist()) == list(range(40))


def test_what_it_is_of_is_checked_at_once_and_the_table_where_it_is_iterated():
    with pytest.raises(UsageError, match="batches, items, steps, not 'rows'"):
        ServerDataset("localhost:1", "numbers", of="rows")
    with served(queue()) as (server, _), pytest.raises(UsageError, match="no table 'number'"):
        next(iter(ServerDataset(server.address, "number")))
