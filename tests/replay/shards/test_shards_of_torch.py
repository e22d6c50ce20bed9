"""Ranks that meet by a store of torch."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed

from gmi_drl.errors import MachineError, PeerSilentError, UsageError
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.shards import AloneLink, link_by_store, open_shards, open_shards_of_torch, torch_group
from tests.replay.shards.shard_ranks import SIGNATURE, trajectories

EXAMPLE = Path(__file__).parents[3] / "examples/shards_ddp.py"


def test_shards_of_ranks_that_met_by_a_store():
    store = torch.distributed.HashStore()

    def live(rank):
        with closing(open_shards(link_by_store(store, rank, 2), SIGNATURE, trajectories=2, steps=4)) as shards:
            shards.insert(trajectories([rank]))
            fields, _ = shards.collect(torch.tensor([2, 0]))
            shards.sync()
            return fields["tag"][:, 0].tolist()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(live, range(2))) == [[100, 0], [100, 0]]
    assert store.get("rank 1").startswith(b'["127.0.0.1", ')


@pytest.mark.parametrize("split", [False, True])
def test_large_rows_go_from_where_they_lie_to_where_they_belong(split):
    store = torch.distributed.HashStore()
    signature = Signature([Field("large", (9_000,)), Field("small", (), torch.int64, "b")])

    def live(rank):
        with closing(open_shards(link_by_store(store, rank, 2), signature, trajectories=3, steps=2)) as shards:
            mine = 3 * rank + torch.arange(3)[:, None].expand(3, 2)
            shards.insert({"large": mine[..., None].expand(3, 2, 9_000).float(), "small": mine})
            wanted = torch.tensor([5, 0, 4, 2, 2, 3])
            for columns, name in ((["step"], "large"), (["b"], "small"), (None, "large"), (None, "small")):
                fields, lengths = shards.collect(wanted, columns, split=split)
                expected = wanted.chunk(2)[rank] if split else wanted
                assert lengths.tolist() == [2] * len(expected)
                value = fields[name].flatten(2) if name == "large" else fields[name][..., None]
                assert torch.equal(value, expected[:, None, None].expand_as(value).to(value.dtype))
            shards.sync()
            return True

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(live, range(2))) == [True, True]


@pytest.mark.parametrize(("gpus", "most"), [("ab", 1), ("aa", 2)])
def test_ranks_tell_each_other_their_gpus_for_nccl(monkeypatch, gpus, most):
    properties = lambda device: SimpleNamespace(uuid=f"GPU-{gpus[device.index]}")  # noqa: E731
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch_group, "NcclLink", lambda sockets, store, device, **more: (device, more))
    store = torch.distributed.HashStore()

    def live(rank):
        with closing(link_by_store(store, rank, 2)) as link:
            with pytest.raises(UsageError, match="NCCL moves between GPUs, and device is cpu"):
                torch_group._over_nccl(link, store, torch.device("cpu"), 20.0)
            return torch_group._over_nccl(link, store, torch.device("cuda", rank), 20.0)

    with ThreadPoolExecutor(2) as pool:
        came = list(pool.map(live, range(2)))
    assert came == [(torch.device("cuda", rank), {"most_per_gpu": most, "on_one_host": True}) for rank in range(2)]


def test_a_rank_that_does_not_come_is_named():
    with pytest.raises(PeerSilentError, match=r"rank 1 has not come to the store for 0\.05 s"):
        link_by_store(torch.distributed.HashStore(), 0, 2, hang_s=0.05)


def test_a_host_that_cannot_be_reached_is_named(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "255.255.255.255")  # refused at once
    with pytest.raises(MachineError, match=r"the host of rank 0, 255\.255\.255\.255 \(MASTER_ADDR\)"):
        link_by_store(torch.distributed.HashStore(), 0, 2, hang_s=0.05)


def test_ranks_of_two_hosts_need_an_address(monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    store = torch.distributed.HashStore()
    store.set("rank 1", b'["127.0.0.1", 9, "another network"]')
    with pytest.raises(UsageError, match="ranks 0 and 1 are on two hosts, and MASTER_ADDR is not set: set it"):
        link_by_store(store, 0, 2, hang_s=5.0)


def test_a_store_with_something_else():
    store = torch.distributed.HashStore()
    store.set("token", b"\x80\x04pickled")
    with pytest.raises(UsageError, match="the store has something else at 'token'"):
        link_by_store(store, 1, 2, hang_s=0.05)


def test_without_a_process_group():
    with pytest.raises(UsageError, match="there is no process group"):
        open_shards_of_torch(SIGNATURE, trajectories=2, steps=4)


def test_shards_that_cannot_be_opened_leave_no_link(monkeypatch):
    closed = []
    link = AloneLink()
    link.close = lambda: closed.append(True)
    monkeypatch.setattr(torch_group, "link_by_store", lambda *_: link)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(UsageError, match="not 0 of 4"):
            open_shards_of_torch(SIGNATURE, trajectories=0, steps=4)
    finally:
        torch.distributed.destroy_process_group()
    assert closed == [True]


def test_the_example_learns_beside_ddp(tmp_path):
    command = [sys.executable, Path(__file__).with_name("example_ranks.py"), "2", EXAMPLE, "--updates", "60"]
    command += ["--checkpoints", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"rank (\d): error (\S+), then (\S+); (\S+) epochs", done.stdout)
    assert sorted(rank for rank, *_ in said) == ["0", "1"], done.stderr
    assert all(float(last) < 0.3 * float(first) and epochs == "15.0" for _, first, last, epochs in said), done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-60.shard-{rank}-of-2" for rank in (0, 1)]
