import json
import pickle
from dataclasses import replace

import pytest
import torch
from blocks import FACTS, index_of, random_experience, same, transitions
from torch.utils.data import DataLoader

from gmi_drl.errors import UsageError
from gmi_drl.replay import ExperienceDataset
from gmi_drl.replay.files import dataset
from gmi_drl.replay.files.block import Block
from gmi_drl.replay.files.index import sizes_of
from gmi_drl.replay.files.shards import ShardFiles
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.observations import pack
from gmi_drl.workload.spaces import Observation, Part, categorical

WORLDS = 4


@pytest.fixture
def written(tmp_path):
    """Two GMIs with three shards each in a folder, and their blocks."""
    blocks, shards = {}, {0: [], 1: []}
    for gmi in shards:
        blocks[gmi] = [random_experience(steps, WORLDS, seed=10 * gmi + steps) for steps in (3, 1, 5)]
        sink = ShardFiles(tmp_path, gmi, shards[gmi].append)
        for block in blocks[gmi]:
            sink.take(block)
        sink.close()
    (tmp_path / "index.json").write_text(index_of(shards, WORLDS).model_dump_json(by_alias=True))
    return tmp_path, blocks


def all_of(blocks):
    return [one for of in blocks.values() for block in of for one in transitions(block)]


def test_transitions_are_those_that_were_seen(written):
    folder, blocks = written
    read, expected = ExperienceDataset(folder), all_of(blocks)
    assert len(read) == len(expected) and read.knows_final_obs and read.index.iteration == 7
    assert all(same(read[i], one) for i, one in enumerate(expected))
    assert same(read[-1], expected[-1])
    for outside in (len(read), -len(read) - 1):
        with pytest.raises(IndexError):
            read[outside]


def test_blocks_are_in_the_order_of_time(written):
    folder, blocks = written
    read = ExperienceDataset(folder)
    for gmi, expected in blocks.items():
        got = list(read.blocks(gmi))
        assert len(got) == 3
        assert all(same(one.tensors(), other.tensors()) for one, other in zip(got, expected, strict=True))
    with pytest.raises(UsageError, match=r"GMIs \[0, 1\], none of GMI 2"):
        next(read.blocks(2))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_shuffles_and_stacks_all(written, workers):
    folder, blocks = written
    read = ExperienceDataset(folder)
    read[0]  # what is open stays with this process
    expected = torch.stack([one["next_obs"] for one in all_of(blocks)])
    loader = DataLoader(
        read, batch_size=8, shuffle=True, num_workers=workers, generator=torch.Generator().manual_seed(0)
    )
    batches = list(loader)
    assert batches[0]["obs"].shape == (8, 3) and batches[0]["terminated"].dtype is torch.bool
    got = torch.cat([batch["next_obs"] for batch in batches])
    assert not torch.equal(got, expected) and torch.equal(got.sort(0)[0], expected.sort(0)[0])


def test_few_shards_are_open_at_once_and_none_goes_to_another_process(written, monkeypatch):
    monkeypatch.setattr(dataset, "OPEN", 2)
    folder, blocks = written
    read, expected = ExperienceDataset(folder), all_of(blocks)
    for i in torch.randperm(len(read), generator=torch.Generator().manual_seed(0)).tolist():
        assert same(read[i], expected[i]) and len(read._open) <= 2
    assert not pickle.loads(pickle.dumps(read))._open


def test_a_file_without_an_entry_is_not_read(written):
    folder, blocks = written
    (folder / "gmi-1-000003.safetensors").write_bytes(b"half a shard")
    assert len(ExperienceDataset(folder)) == len(all_of(blocks))


def test_a_shard_that_was_changed_is_named(written):
    folder, blocks = written
    path = folder / "gmi-1-000002.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    read = ExperienceDataset(folder)
    assert same(read[0], all_of(blocks)[0]), "the others are what they were"
    with pytest.raises(UsageError, match=r"gmi-1-000002\.safetensors was changed since it was written"):
        read[len(read) - 1]
    with pytest.raises(UsageError, match=r"gmi-1-000002\.safetensors was changed"):
        list(read.blocks(1))


def test_a_shard_that_is_missing_or_cut_short_is_named_at_once(written):
    folder, _ = written
    path = folder / "gmi-0-000001.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UsageError, match=r"gmi-0-000001\.safetensors has \d+ bytes, it was written with \d+"):
        ExperienceDataset(folder)
    path.unlink()
    with pytest.raises(UsageError, match=r"gmi-0-000001\.safetensors is missing"):
        ExperienceDataset(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index.update(schema="gmi-drl/experience/9"), "schema: this gmi-drl reads"),
        (lambda index: index.update(num_obs=0, colour="red"), "2 mistakes"),
        (lambda index: index["gmis"]["0"]["shards"][0].update(file="../gmi-0-000000.safetensors"), "file"),
        (lambda index: index["gmis"].pop("1"), None),
    ],
)
def test_the_index_is_checked_whole(written, change, message):
    folder, blocks = written
    index = json.loads((folder / "index.json").read_text())
    change(index)
    (folder / "index.json").write_text(json.dumps(index))
    if message is None:
        assert len(ExperienceDataset(folder)) == len(all_of({0: blocks[0]}))
        return
    with pytest.raises(UsageError, match=message):
        ExperienceDataset(folder)


def test_a_shard_of_other_sizes_is_refused_by_its_name(written):
    folder, _ = written
    index = json.loads((folder / "index.json").read_text())
    index["num_obs"] = 4
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(UsageError, match=r"gmi-0-000000\.safetensors: obs is \(3, 4, 3\), the index has \(3, 4, 4\)"):
        ExperienceDataset(folder)[0]


def test_what_is_no_experience_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"is no folder with experience: it has no index\.json"):
        ExperienceDataset(tmp_path)
    (tmp_path / ".writing").touch()
    with pytest.raises(UsageError, match="it is being written, or its writer was killed"):
        ExperienceDataset(str(tmp_path))


def test_unknown_last_observations_are_marked(tmp_path):
    told = []
    sink = ShardFiles(tmp_path, 0, told.append)
    sink.take(random_experience(3, WORLDS, seed=0, knows=False))
    sink.close()
    (tmp_path / "index.json").write_text(index_of({0: told}, WORLDS).model_dump_json(by_alias=True))
    read = ExperienceDataset(tmp_path)
    assert not read.knows_final_obs and not next(read.blocks(0)).knows_final_obs


def test_parts_of_an_observation_come_back_by_name(tmp_path):
    seen = Observation((Part("camera", (2, 3, 3), "image"), Part("joints", (4,))))
    pixels, joints = torch.arange(36, dtype=torch.uint8).view(2, 2, 3, 3), torch.randn(2, 4)
    row = pack({"camera": pixels, "joints": joints}, seen)
    flags = torch.zeros(1, 2, dtype=torch.bool)
    block = Block(
        row[None], torch.zeros(1, 2, 1), torch.zeros(1, 2), flags, flags, ~flags, row.flip(0), row[:0],
        torch.zeros(0, 2, dtype=torch.int64),
    )  # fmt: skip
    shards = []
    sink = ShardFiles(tmp_path, 0, shards.append)
    sink.take(block)
    sink.close()
    sizes = sizes_of(replace(TASK_SPECS["ant"], observation=seen, action=categorical(3)))
    facts = {**FACTS, **json.loads(json.dumps(sizes)), "schema": "gmi-drl/experience/1", "state": "done"}
    gmis = {"0": {"num_env": 2, "seed": 0, "shards": [one.model_dump() for one in shards]}}
    (tmp_path / "index.json").write_text(json.dumps({**facts, "gmis": gmis}))
    found = ExperienceDataset(tmp_path)[1]
    assert torch.equal(found["obs/camera"], pixels[1]) and torch.equal(found["obs/joints"], joints[1])
    assert torch.equal(found["next_obs/camera"], pixels[0]) and "obs" not in found
