import os

import pytest
import torch

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.storage import make_storage
from tests.replay.signatures import MIXED, NUMBERED, mixed_steps

KINDS = [
    {"placement": "cpu"},
    {"placement": "shared"},
    {"placement": "device"},
    {"placement": "file"},
    {"codec": "zlib"},
    {"codec": "zlib-differences"},
    {"placement": "file", "codec": "zlib-differences"},
]


@pytest.fixture(params=KINDS, ids=lambda options: "-".join(options.values()))
def storage(request, tmp_path):
    options = dict(request.param)
    if options.get("placement") == "file":
        options["path"] = tmp_path / "rows"
    made = make_storage(MIXED, 500, longest=4, **options)
    yield made
    made.close()


def fill(storage):
    """Number all steps by their places."""
    size = storage.blocks.block_steps
    for block in range(storage.blocks.count):
        storage.write(block * size, mixed_steps(size, block * size))
        if block < storage.blocks.count - 1:
            storage.seal(block)
    storage.flush()


def test_what_is_written_is_gathered(storage):
    fill(storage)
    first = torch.tensor([3, 400, 3, storage.steps - 1])
    gathered = storage.gather(first)
    assert gathered.lead == (4, 1)
    for name, value in mixed_steps(storage.steps).items():
        assert torch.equal(gathered.fields[name][:, 0], value[first])
        assert gathered.fields[name].dtype == value.dtype


def test_stretches_have_zeros_past_their_ends(storage):
    fill(storage)
    gathered = storage.gather(torch.tensor([5, storage.steps - 2]), torch.tensor([4, 2]))
    assert gathered.fields["step"].tolist() == [[5, 6, 7, 8], [storage.steps - 2, storage.steps - 1, 0, 0]]
    assert not gathered.fields["image"][1, 2:].any()
    assert not gathered.fields["obs"][1, 2:].any()


@pytest.mark.parametrize("longest", (2, 3))
def test_stretches_of_one_length_are_the_steps_from_each_place_on(storage, longest):
    """The last ones end with the storage, or reach past its end, where the last step stands for all."""
    fill(storage)
    for last in (storage.steps - longest, storage.steps - 1):
        first = torch.tensor([0, 7, 7, last])
        wanted = (first[:, None] + torch.arange(longest)).clamp(max=storage.steps - 1)
        gathered = storage.gather(first, longest)
        for name, value in mixed_steps(storage.steps).items():
            assert torch.equal(gathered.fields[name], value[wanted])


def test_a_stride_skips_steps_and_columns_can_be_chosen(storage):
    fill(storage)
    gathered = storage.gather(torch.tensor([10, 2]), 3, stride=7, columns=("step",))
    assert gathered.fields["step"].tolist() == [[10, 17, 24], [2, 9, 16]]
    assert "image" not in gathered.fields


def test_rows_of_an_earlier_gather_are_used_again(storage):
    fill(storage)
    out = storage.gather(torch.tensor([1, 2]), 2)
    before = out.fields["step"].data_ptr()
    again = storage.gather(torch.tensor([8, 9]), torch.tensor([2, 1]), longest=2, out=out)
    assert again is out
    assert out.fields["step"].data_ptr() == before
    assert out.fields["step"].tolist() == [[8, 9], [9, 0]]


def test_steps_are_copied_to_another_place(storage):
    fill(storage)
    size = storage.blocks.block_steps
    storage.copy(3, (storage.blocks.count - 1) * size, 4)
    assert storage.gather(torch.tensor([(storage.blocks.count - 1) * size]), 4).fields["step"].tolist() == [
        [3, 4, 5, 6]
    ]


def test_blocks_have_8_of_the_longest_items_at_least():
    assert make_storage(NUMBERED, 100, longest=50).blocks.block_steps == 400
    assert make_storage(NUMBERED, 160).blocks.block_steps == 10
    assert make_storage(NUMBERED, 2**25 // 8).blocks.block_steps == 2**20 // 8


def test_another_mapping_of_shared_memory_sees_the_rows():
    storage = make_storage(MIXED, 100, placement="shared")
    other = type(storage)(MIXED, 100, descriptor=os.dup(storage.descriptor))
    storage.write(0, mixed_steps(5))
    assert other.gather(torch.tensor([4])).fields["step"].item() == 4
    with pytest.raises(UsageError, match="the shared memory has"):
        type(storage)(MIXED, 10_000, descriptor=storage.descriptor)
    storage.close()


def test_a_file_is_opened_again(tmp_path):
    path = tmp_path / "rows"
    make_storage(MIXED, 100, placement="file", path=path).write(0, mixed_steps(5))
    again = make_storage(MIXED, 100, placement="file", path=path)
    assert again.was_there
    assert again.gather(torch.tensor([4])).fields["step"].item() == 4
    with pytest.raises(UsageError, match="another signature: number is missing; obs is unknown"):
        make_storage(NUMBERED, 100, placement="file", path=path)
    with pytest.raises(UsageError, match=r"longest 1 .*, not .* longest 2"):
        make_storage(MIXED, 100, longest=2, placement="file", path=path)
    path.write_bytes(b"\0" * 70000)
    with pytest.raises(UsageError, match="no file of replay rows"):
        make_storage(MIXED, 100, placement="file", path=path)


def test_a_disk_without_room_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(MachineError, match="No space left"):
        make_storage(MIXED, 100, placement="file", path=tmp_path / "rows")
    assert list(tmp_path.iterdir()) == []


def test_complete_blocks_are_small():
    frames = Signature((Field("frame", (84, 84), torch.uint8),))
    storage = make_storage(frames, 400, longest=5, codec="zlib-differences")
    size = storage.blocks.block_steps
    frame = (torch.arange(84)[:, None] * torch.arange(84) % 251).to(torch.uint8).expand(size, 84, 84).clone()
    frame[torch.arange(size), torch.arange(size)] = 7
    storage.write(0, {"frame": frame})
    before = storage.info()["bytes"]
    storage.seal(0)
    assert storage.info()["saved"] > 0.9
    assert storage.info()["bytes"] < before / 10
    assert torch.equal(storage.gather(torch.tensor([0]), size).fields["frame"][0], frame)


def test_a_file_of_compressed_blocks_is_small_and_opened_again(tmp_path):
    path, codec = tmp_path / "blocks", "zlib-differences"
    storage = make_storage(MIXED, 20_000, placement="file", path=path, codec=codec)
    size = storage.blocks.block_steps
    for block in range(3):
        storage.write(block * size, mixed_steps(size, block * size))
    storage.seal(0)
    storage.seal(1)
    storage.write(size, mixed_steps(5))  # another stream has leased it
    told = storage.info()
    assert not storage.was_there and 0.5 < told["saved"] < 1
    assert path.stat().st_blocks * 512 < 3 * size * MIXED.step_bytes + 100_000 < path.stat().st_size
    storage.close()
    again = make_storage(MIXED, 20_000, placement="file", path=path, codec=codec)
    assert again.was_there and again.placement == "file"
    seen = again.gather(torch.tensor([0, size - 1, size, size + 4, 2 * size, 3 * size])).fields["step"].flatten()
    assert seen.tolist() == [0, size - 1, 0, 4, 2 * size, 0]
    with pytest.raises(UsageError, match=r"differences 1 .*, not .* differences 0"):
        make_storage(MIXED, 20_000, placement="file", path=path, codec="zlib")
    with pytest.raises(UsageError, match="format gmi-drl/replay-blocks/1"):
        make_storage(MIXED, 20_000, placement="file", path=path)
    again.close()


def test_a_block_that_the_disk_has_no_room_for_stays_in_memory(tmp_path, monkeypatch):
    storage = make_storage(MIXED, 500, placement="file", path=tmp_path / "blocks", codec="zlib")
    storage.write(0, mixed_steps(5))

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(MachineError, match="a block of replay cannot be written: No space left"):
            storage.seal(0)
    assert storage.gather(torch.tensor([4])).fields["step"].item() == 4 and storage.info()["saved"] == 0
    storage.seal(0)
    assert storage.gather(torch.tensor([4])).fields["step"].item() == 4 and storage.info()["saved"] > 0
    storage.close()


def test_steps_reach_a_device_in_updates():
    storage = make_storage(NUMBERED, 5000, placement="device")
    storage.write(0, {"number": torch.arange(1, 2501)})
    assert storage.pending == 500
    assert storage.gather(torch.tensor([1999, 2000])).fields["number"].flatten().tolist() == [2000, 0]
    storage.write(3000, {"number": torch.arange(1, 11)})  # elsewhere: what was pending goes first
    assert storage.gather(torch.tensor([2499, 3000])).fields["number"].flatten().tolist() == [2500, 0]
    storage.flush()
    assert storage.gather(torch.tensor([3009])).fields["number"].item() == 10
    with pytest.raises(UsageError, match="update_size is 6000"):
        type(storage)(NUMBERED, 4000, update_size=6000)


def test_more_than_the_host_has_is_refused():
    for placement in ("cpu", "shared", "device"):
        with pytest.raises(MachineError, match="are available"):
            make_storage(Signature((Field("big", (2**30,)),)), 10**6, placement=placement)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"placement": "gpu"}, "no placement 'gpu'"),
        ({"codec": "zstd"}, "no codec 'zstd'"),
        ({"placement": "file"}, "a path goes with"),
        ({"placement": "shared", "codec": "zlib"}, "goes with the placements 'cpu' and 'file'"),
        ({"placement": "shared", "device": "cuda"}, "gathers on the CPU"),
        ({"placement": "pinned"}, "read by a GPU"),
        ({"steps": 0}, "1 step"),
    ],
)
def test_what_does_not_go_together_is_refused(options, told):
    with pytest.raises(UsageError, match=told):
        make_storage(NUMBERED, **({"steps": 10} | options))


def test_it_tells_its_bytes_while_a_stream_completes_a_block():
    storage = make_storage(NUMBERED, 200, codec="zlib")
    for block in range(2):
        storage.write(block * storage.blocks.block_steps, {"number": torch.arange(3)})
    storage.seal(0)

    class Sealing(dict):
        def values(self):
            if 1 in storage._raw:
                storage.seal(1)
            return super().values()

    storage._coded._blocks[0] = Sealing(storage._coded._blocks[0])
    assert storage.info()["bytes"] > 0
