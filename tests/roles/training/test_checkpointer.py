import shutil
from collections import namedtuple

import pytest
import torch
from conftest import tiny_config, tiny_layout

from gmi_drl.comm.groups.single import SingleRankGroup
from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.roles.training.checkpointer import Checkpointer
from gmi_drl.run.checkpoint import list_checkpoints, read_index
from gmi_drl.run.checkpoint_store import CheckpointStore

LAYOUT, CONFIG = tiny_layout(2), tiny_config(iterations=7, checkpoint_every=3, checkpoints_kept=2)


class Held:
    """What a replica holds, without one."""

    def __init__(self, number):
        self.learner, self.worlds, self.rate = torch.tensor([number]), torch.tensor([10 * number]), None

    def learner_state(self):
        return {"learner": self.learner}

    def local_state(self):
        return {"worlds": self.worlds}

    def load_learner_state(self, state):
        self.learner = state["learner"]

    def load_local_state(self, state):
        self.worlds = state["worlds"]

    def set_learning_rate(self, rate):
        self.rate = rate


class Second(SingleRankGroup):
    """The other rank of a group whose rank 0 is said to hold the same, or not."""

    def __init__(self, off=0.0):
        super().__init__()
        self.rank, self.off = 1, off

    def gather(self, values):
        return torch.stack((values + self.off, values))


@pytest.fixture
def exported():
    return []


@pytest.fixture
def make_checkpointer(tmp_path, exported):
    def make(gmi_id=0, group=None, config=CONFIG, layout=LAYOUT):
        def export(folder, iteration):
            exported.append((folder, iteration))
            return ()

        folder = tmp_path / "checkpoints"
        folder.mkdir(exist_ok=True)
        return Checkpointer(CheckpointStore(folder), layout, gmi_id, group or SingleRankGroup(), config, export=export)

    return make


@pytest.mark.parametrize("rank", [0, 1])
def test_room_is_required_for_all_parts_of_a_host(make_checkpointer, tmp_path, monkeypatch, rank):
    asked = []
    monkeypatch.setattr(CheckpointStore, "require_own_room", lambda self, need: asked.append(need))
    group = Second() if rank else SingleRankGroup()
    make_checkpointer(rank, group).prove_disk(Held(1.0), 0, 0, keep=True)
    draft = tmp_path / "checkpoints" / ("000000" if rank == 0 else ".000000.draft")
    parts = [f"gmi-{rank}", *(["learner"] if rank == 0 else [])]
    assert asked == [len(LAYOUT.gmis) * sum((draft / f"{part}.safetensors").stat().st_size for part in parts)]


def test_checkpoints_are_due_now_and_then_and_at_the_end(make_checkpointer):
    checkpointer = make_checkpointer()
    assert [iteration for iteration in range(1, 8) if checkpointer.is_due(iteration)] == [3, 6, 7]


def test_each_gmi_writes_its_part_and_rank_0_the_learner_and_the_index(make_checkpointer, tmp_path, exported):
    make_checkpointer(1, Second()).save(Held(1.0), 3, 96)
    assert list_checkpoints(tmp_path / "checkpoints") == [] and exported == []
    make_checkpointer(0).save(Held(1.0), 3, 96)
    (saved,) = list_checkpoints(tmp_path / "checkpoints")
    index = read_index(saved)
    assert (index["iteration"], index["env_steps"], index["num_env"]) == (3, 96, 16)
    assert set(index["parts"]) == {f"{part}.safetensors" for part in ("gmi-0", "gmi-1", "learner")}
    assert exported == [(tmp_path, 3)]


@pytest.mark.parametrize(("gmis", "worlds"), [(2, 20.0), (1, 50.0)], ids=["same layout", "another one"])
def test_tasks_are_restored_on_the_same_layout_and_the_learner_on_any(make_checkpointer, tmp_path, gmis, worlds):
    make_checkpointer().save(Held(2.0), 3, 96)
    (saved,) = list_checkpoints(tmp_path / "checkpoints")
    replica = Held(5.0)
    make_checkpointer(layout=tiny_layout(gmis)).restore(replica, saved, read_index(saved))
    assert (replica.learner.item(), replica.worlds.item(), replica.rate) == (2.0, worlds, None)


def test_the_learning_rate_is_set_where_another_is_asked_for(make_checkpointer, tmp_path):
    make_checkpointer().save(Held(2.0), 3, 96)
    (saved,) = list_checkpoints(tmp_path / "checkpoints")
    replica = Held(5.0)
    other = CONFIG.model_copy(update={"learner": CONFIG.learner.model_copy(update={"learning_rate": 0.5})})
    make_checkpointer(config=other).restore(replica, saved, read_index(saved))
    assert replica.rate == 0.5


def test_learners_that_differ_are_refused(make_checkpointer):
    with pytest.raises(GmiError, match="iteration 3: the learners of the GMIs differ"):
        make_checkpointer(1, Second(off=1.0)).save(Held(1.0), 3, 96)


@pytest.mark.parametrize("keep", [True, False])
def test_the_disk_is_proved_and_a_new_run_keeps_the_proof(make_checkpointer, tmp_path, exported, keep):
    make_checkpointer().prove_disk(Held(1.0), 0, 0, keep=keep)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["000000"] * keep
    assert exported == [(tmp_path, 0)] * keep


def test_a_disk_without_room_for_all_that_will_be_kept_is_refused(make_checkpointer, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(free=300))
    with pytest.raises(MachineError, match="300 B are free"):
        make_checkpointer().prove_disk(Held(1.0), 0, 0, keep=True)


def test_room_is_required_for_what_checkpoints_will_grow_by(make_checkpointer, monkeypatch):
    asked = []
    monkeypatch.setattr(CheckpointStore, "require_own_room", lambda self, need: asked.append(need))
    monkeypatch.setattr(CheckpointStore, "require_room", lambda self, *sizes: asked.append(sizes))
    make_checkpointer().prove_disk(Held(1.0), 0, 0, keep=False)
    make_checkpointer().prove_disk(Held(1.0), 0, 0, keep=False, growth=1000)
    assert asked[2] - asked[0] == len(LAYOUT.gmis) * 1000
    assert (asked[1], asked[3]) == ((0, CONFIG.checkpoints_kept + 1, 0), (0, CONFIG.checkpoints_kept + 1, 1000))


@pytest.mark.parametrize(
    ("every_s", "writing_s", "since_s", "is_late"),
    [(60.0, 0.1, 59.0, False), (60.0, 0.1, 61.0, True), (60.0, 1.0, 99.0, False), (None, 0.1, 1e9, False)],
)
def test_a_checkpoint_is_late_after_a_time_but_takes_one_percent_of_it_at_most(
    make_checkpointer, every_s, writing_s, since_s, is_late
):
    checkpointer = make_checkpointer(config=CONFIG.model_copy(update={"checkpoint_every_s": every_s}))
    checkpointer._saved_s -= since_s
    checkpointer._writing_s = writing_s
    assert checkpointer.is_late() is is_late
    checkpointer.save(Held(1.0), 1, 32)
    assert not checkpointer.is_late()


def test_checkpoints_by_time_leave_no_files_for_other_tools(make_checkpointer, exported):
    make_checkpointer().save(Held(1.0), 1, 32, exports=False)
    assert exported == []


def test_a_gmi_reads_its_own_part_alone_and_refuses_a_changed_one(make_checkpointer, tmp_path):
    make_checkpointer(1, Second()).save(Held(1.0), 3, 96)
    make_checkpointer(0).save(Held(1.0), 3, 96)
    (saved,) = list_checkpoints(tmp_path / "checkpoints")
    index, first, second = read_index(saved), make_checkpointer(0), make_checkpointer(1)
    shutil.copyfile(saved / "learner.safetensors", saved / "gmi-1.safetensors")
    first.restore(Held(5.0), saved, index)
    with pytest.raises(UsageError, match=r"gmi-1\.safetensors is missing or was changed"):
        second.restore(Held(5.0), saved, index)
    (saved / "gmi-1.safetensors").unlink()
    first.restore(Held(5.0), saved, index)
    shutil.copyfile(saved / "gmi-0.safetensors", saved / "learner.safetensors")
    with pytest.raises(UsageError, match=r"learner\.safetensors is missing or was changed"):
        first.restore(Held(5.0), saved, index)
