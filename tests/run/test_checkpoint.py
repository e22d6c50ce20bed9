import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.run import checkpoint


def save(folder, iteration, kept=2, **more):
    draft = checkpoint.draft(folder, iteration)
    checkpoint.write_part(draft, "learner", {"w": torch.arange(5.0) + iteration})
    return checkpoint.commit(
        folder,
        iteration,
        {"env_steps": 64, "layout": "abc", "num_env": 8, "learner": "d", "learning_rate": 1e-3, **more},
        kept,
    )


def test_parts_come_back_bit_identical(tmp_path):
    saved = save(tmp_path, 7)
    index = checkpoint.read_index(saved)
    assert (index["iteration"], index["layout"], index["num_env"]) == (7, "abc", 8)
    assert torch.equal(checkpoint.read_part(saved, "learner")["w"], torch.arange(5.0) + 7)


def test_only_the_newest_are_kept(tmp_path):
    for iteration in (1, 2, 10, 9_999_999):
        save(tmp_path, iteration)
    assert [path.name for path in checkpoint.list_checkpoints(tmp_path)] == ["000010", "9999999"]


def test_the_best_one_is_kept_beside_the_newest(tmp_path):
    for iteration, value in ((1, 5.0), (2, None), (3, 7.0), (4, 6.0), (5, None), (6, None)):
        save(tmp_path, iteration, **({} if value is None else {checkpoint.EVALUATED: value}))
    assert [path.name for path in checkpoint.list_checkpoints(tmp_path)] == ["000003", "000005", "000006"]
    assert checkpoint.best_checkpoint(tmp_path).name == "000003"
    save(tmp_path, 7, **{checkpoint.EVALUATED: 8.0})
    assert [path.name for path in checkpoint.list_checkpoints(tmp_path)] == ["000006", "000007"]


def test_copies_beside_the_checkpoints_are_left_alone(tmp_path):
    saved = save(tmp_path, 1)
    shutil.copytree(saved, tmp_path / "000001.best")
    assert checkpoint.list_checkpoints(tmp_path) == [saved] and save(tmp_path, 2).exists()
    assert (tmp_path / "000001.best").exists()


def test_a_half_written_checkpoint_does_not_exist(tmp_path):
    checkpoint.write_part(checkpoint.draft(tmp_path, 3), "learner", {"w": torch.zeros(1)})
    assert checkpoint.list_checkpoints(tmp_path) == []
    checkpoint.drop_drafts(tmp_path)
    assert list(tmp_path.iterdir()) == []


def corrupt_bit(saved):
    file = saved / "learner.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def cut_index(saved):
    (saved / "checkpoint.json").write_text('{"schema": ')


def nest_index(saved):
    (saved / "checkpoint.json").write_text("[" * 100_000)


def lose_part(saved):
    (saved / "learner.safetensors").unlink()


def forget_parts(saved):
    index = json.loads((saved / "checkpoint.json").read_text())
    (saved / "checkpoint.json").write_text(json.dumps(index | {"parts": {}}))


def other_schema(saved):
    index = json.loads((saved / "checkpoint.json").read_text())
    (saved / "checkpoint.json").write_text(json.dumps(index | {"schema": "gmi-drl/checkpoint/99"}))


def edit(**facts):
    def damage(saved):
        index = json.loads((saved / "checkpoint.json").read_text())
        (saved / "checkpoint.json").write_text(json.dumps(index | facts))

    return damage


def drop_the_digest(saved):
    index = json.loads((saved / "checkpoint.json").read_text())
    (saved / "checkpoint.json").write_text(json.dumps({name: index[name] for name in index if name != "digest"}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (edit(env_steps=999_999_999), "checkpoint.json was changed since it was written.*away"),
        (edit(digest="0" * 64), "checkpoint.json was changed"),
        (edit(more=1), "checkpoint.json was changed"),
        (edit(iteration="1"), "checkpoint.json is broken"),
        (edit(parts=[1]), "checkpoint.json is broken"),
        (edit(schema=[3]), "this version reads"),
        (drop_the_digest, "checkpoint.json is broken"),
        (corrupt_bit, "learner.safetensors is missing or was changed.*away"),
        (lose_part, "learner.safetensors is missing"),
        (cut_index, "checkpoint.json is broken"),
        (nest_index, "checkpoint.json is broken"),
        (forget_parts, "checkpoint.json is broken"),
        (
            other_schema,
            "schema 'gmi-drl/checkpoint/99', this version reads .*resume with the gmi-drl that began the run",
        ),
    ],
)
def test_damage_is_refused(tmp_path, damage, message):
    saved = save(tmp_path, 1)
    damage(saved)
    with pytest.raises(UsageError, match=message):
        checkpoint.read_index(saved)


def test_who_reads_one_part_needs_that_part_alone(tmp_path):
    checkpoint.write_part(checkpoint.draft(tmp_path, 1), "gmi-0", {"w": torch.zeros(1)})
    saved = save(tmp_path, 1)
    lose_part(saved)
    with pytest.raises(UsageError, match=r"learner\.safetensors is missing"):
        checkpoint.read_index(saved)
    for parts in ((), ["gmi-0"]):
        index = checkpoint.read_index(saved, parts)
    assert checkpoint.read_part(saved, "gmi-0", index)["w"].item() == 0
    for part in ("learner", "gmi-1"):
        told = f"{part}.safetensors is missing or was changed since it was written: move .* away"
        with pytest.raises(UsageError, match=told):
            checkpoint.read_index(saved, [part])
        with pytest.raises(UsageError, match=told):
            checkpoint.read_part(saved, part, index)


def test_a_part_that_was_changed_is_refused_by_who_reads_it(tmp_path):
    saved = save(tmp_path, 1)
    index = checkpoint.read_index(saved)
    (tmp_path / "other").mkdir()
    other = save(tmp_path / "other", 2) / "learner.safetensors"
    shutil.copyfile(other, saved / "learner.safetensors")  # whole, and of another run
    assert checkpoint.read_part(saved, "learner")["w"][0] == 2
    with pytest.raises(UsageError, match=r"learner\.safetensors is missing or was changed"):
        checkpoint.read_part(saved, "learner", index)


def test_a_checkpoint_that_was_renamed_is_refused_with_its_name(tmp_path):
    later = save(tmp_path, 15).rename(tmp_path / "000040")
    with pytest.raises(UsageError, match=r"000040 was renamed, its index has iteration 15: .* name back, 000015"):
        checkpoint.read_index(later)


def test_a_checkpoint_of_an_earlier_version_whose_index_has_no_digest_is_read(tmp_path):
    saved = save(tmp_path, 1)
    drop_the_digest(saved)
    edit(schema=checkpoint.UNSEALED)(saved)
    assert checkpoint.read_index(saved)["env_steps"] == 64


def test_a_disk_without_room_is_an_error_with_the_numbers(tmp_path, monkeypatch):
    save(tmp_path, 0)
    draft = checkpoint.draft(tmp_path, 1)
    file = checkpoint.write_part(draft, "learner", {"w": torch.ones(2)})
    checkpoint.require_room(draft, 3)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": file.stat().st_size})())
    checkpoint.require_room(draft, 3)  # the one that is there and the draft are two of them
    with pytest.raises(MachineError, match=r"are free, the checkpoints to come need"):
        checkpoint.require_room(draft, 4)
    with pytest.raises(MachineError, match=r"are free, the checkpoints to come need"):
        checkpoint.require_room(draft, 3, growth=file.stat().st_size)


def test_a_folder_that_lost_its_index_is_written_over(tmp_path):
    (save(tmp_path, 1) / "checkpoint.json").unlink()
    assert checkpoint.read_index(save(tmp_path, 1))["iteration"] == 1


def test_a_disk_that_refuses_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(MachineError, match="cannot be written: No space left"):
        save(tmp_path, 1)


def test_all_that_a_checkpoint_holds_is_on_the_disk_before_its_name_is(tmp_path, monkeypatch):
    """A power failure loses what was not synced: files, then the draft, then its new name."""
    done, sync, rename = [], os.fsync, os.rename

    def record_sync(descriptor):
        done.append(("sync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))
        sync(descriptor)

    def record_rename(source, target, **more):
        done.append(("rename", Path(source).name))
        rename(source, target, **more)

    monkeypatch.setattr("os.fsync", record_sync)
    monkeypatch.setattr("os.rename", record_rename)
    save(tmp_path, 1)
    named = done.index(("rename", ".000001.draft"))
    assert done[named - 1] == ("sync", ".000001.draft") and done[named + 1] == ("sync", tmp_path.name)
    assert {"learner", "checkpoint"} == {name.split(".")[1] for what, name in done[: named - 1] if what == "sync"}


def test_names_are_prefixed_and_back():
    tensors = {"a": torch.zeros(1), "b.c": torch.ones(1)}
    assert checkpoint.with_prefix("task", checkpoint.prefixed("task", tensors) | {"x": torch.zeros(1)}) == tensors
