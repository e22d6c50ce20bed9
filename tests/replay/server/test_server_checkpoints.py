"""Checkpoints of a server whose disk is full."""

import resource
import signal

import pytest
import torch

from gmi_drl.errors import MachineError
from gmi_drl.replay.server.server import Server
from tests.replay.servers import long_table, served, steps


def test_a_full_disk_is_told_and_the_server_goes_on(tmp_path):
    """The limit of a file's size, which stands for it here, ends a write as a full disk does."""
    before, (soft, hard) = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    with served(long_table(max_size=5000, steps=20_000), checkpoints=tmp_path) as (_, client):
        with client.writer("numbers") as writer:
            number = torch.arange(5000)
            writer.create_items("numbers", writer.append({"number": number}) + number)
        client.checkpoint(1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            with pytest.raises(MachineError, match="the checkpoint of replay cannot be written"):
                client.checkpoint(2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)
        assert [path.name for path in tmp_path.glob("0*/*")] == ["shard_0"], "nothing is left of it"
        assert client.info()[0]["trainer_step"] == 1
        client.insert(steps(7, 8), {"numbers": 1.0})
        assert client.sample("numbers", 1).table_size == 5000
        last = client.checkpoint(3)[0]
    with Server([table := long_table(max_size=5000, steps=20_000)], restore=tmp_path / last):
        assert table.size == 5000
