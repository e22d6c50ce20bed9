import os
import threading

import pytest
import torch
from blocks import random_experience, same, transitions
from safetensors.torch import load_file

from gmi_drl.errors import MachineError
from gmi_drl.replay.files import shards
from gmi_drl.replay.files.block import TENSORS
from gmi_drl.replay.files.shards import ShardFiles


def test_every_block_becomes_a_shard_reported_in_order(tmp_path):
    told, blocks = [], [random_experience(steps, 4, seed=steps) for steps in (3, 1, 5)]
    sink = ShardFiles(tmp_path, 2, told.append)
    for block in blocks:
        sink.take(block)
    sink.close()
    assert [shard.file for shard in told] == [f"gmi-2-00000{number}.safetensors" for number in range(3)]
    assert sorted(os.listdir(tmp_path)) == [shard.file for shard in told], "no draft is left"
    for shard, block in zip(told, blocks, strict=True):
        path = tmp_path / shard.file
        tensors = load_file(path)
        assert tensors.keys() == set(TENSORS) and same(tensors, block.tensors())
        assert (shard.steps, shard.transitions, shard.ends) == (
            block.steps,
            len(list(transitions(block))),
            len(block.final_obs),
        )
        assert shard.bytes == path.stat().st_size


def test_a_block_may_be_overwritten_after_take(tmp_path):
    block = random_experience(3, 4, seed=0)
    obs, told = block.obs.clone(), []
    sink = ShardFiles(tmp_path, 0, told.append)
    sink.take(block)
    block.obs.zero_()
    sink.close()
    assert torch.equal(load_file(tmp_path / told[0].file)["obs"], obs)


def test_a_disk_that_takes_nothing_more_is_an_error_that_names_the_folder(tmp_path):
    folder, told = tmp_path / "gone", []
    folder.mkdir()
    sink = ShardFiles(folder, 0, told.append)
    sink.take(random_experience(3, 4, seed=0))
    while not told:
        sink._check(float("inf"))
    (folder / told[0].file).unlink()
    folder.rmdir()
    with pytest.raises(MachineError, match=r"gone: the experience cannot be written: No such file"):
        for _ in range(1000):
            sink.take(random_experience(3, 4, seed=0))
    with pytest.raises(MachineError, match="cannot be written"):
        sink.close()
    assert len(told) == 1


def test_a_slow_disk_makes_take_wait(tmp_path, monkeypatch):
    may_write, took = threading.Event(), []
    write = shards.write_atomically
    monkeypatch.setattr(shards, "write_atomically", lambda *args: (may_write.wait(60), write(*args)))
    told = []
    sink = ShardFiles(tmp_path, 0, told.append)

    def play():
        for number in range(5):
            sink.take(random_experience(3, 4, seed=number))
            took.append(number)

    player = threading.Thread(target=play)
    player.start()
    player.join(1.0)
    assert len(took) <= 2 and player.is_alive(), "one is written, one waits"
    may_write.set()
    player.join(60)
    sink.close()
    assert took == list(range(5)) and len(told) == 5


def test_a_disk_that_hangs_is_an_error(tmp_path, monkeypatch):
    may_write = threading.Event()
    monkeypatch.setattr(shards, "write_atomically", lambda *args: may_write.wait(60))
    monkeypatch.setattr(shards, "WRITE_S", 0.3)
    sink = ShardFiles(tmp_path, 0, lambda shard: None)
    with pytest.raises(MachineError, match="the disk has taken no shard"):
        for _ in range(3):
            sink.take(random_experience(3, 4, seed=0))
    may_write.set()
