"""Experience of real GMIs: what is read back is what the physics did, and however serving ends it can be read."""

import os
import shutil
import signal
import subprocess

import pytest
import torch
from conftest import children_of, tiny_config, two_cores

from gmi_drl.errors import GmiDiedError, GmiError, MachineError, UsageError
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.launch import serving
from gmi_drl.launch.serving import serve
from gmi_drl.layout.cut import Cut
from gmi_drl.replay import ExperienceDataset
from gmi_drl.replay.files.index import step_bytes
from gmi_drl.roles.seeds import serving_seed
from gmi_drl.roles.serving.player import load_agent
from gmi_drl.tasks import make
from gmi_drl.templates import TCG
from gmi_drl.workload import TASK_SPECS

SPEC = TASK_SPECS["ball_balance"]
WORLDS, STEPS, IN_SHARD = 6, 150, 64


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(serving, "SHARD_BYTES", IN_SHARD * WORLDS * step_bytes(SPEC))


def layout(gmis):
    return TCG.lay_out(SPEC, Node(name="n", cpu=Cpu(cores=gmis, memory_gib=8)), Cut(gmis, WORLDS))


@two_cores
@pytest.mark.parametrize("stochastic", [False, True])
def test_what_is_read_back_is_what_the_physics_does(served_run, tmp_path, stochastic):
    """Each step again, in worlds of the same seed: by the agent, and by the actions that were written."""
    folder = tmp_path / "experience"
    served = serve(layout(2), served_run, steps=STEPS, seed=3, stochastic=stochastic, experience=folder)
    read = ExperienceDataset(folder)
    assert sorted(path.name for path in read.folder.iterdir()) == [
        *(f"gmi-{gmi}-00000{number}.safetensors" for gmi in (0, 1) for number in range(3)),
        "index.json",
    ]
    assert (read.index.state, read.index.task, read.index.iteration, read.index.stochastic) == (
        *("done", "ball_balance", 2, stochastic),
    )
    assert read.index.run == str(served_run.path) and len(read) == sum(gmi.env_steps for gmi in served.gmis.values())
    agent = load_agent(served_run, SPEC, tiny_config())
    place = 0
    for gmi, told in read.index.gmis.items():
        assert told.seed == serving_seed(3, gmi) and [shard.steps for shard in told.shards] == [64, 64, 22]
        task = make("ball_balance", num_env=WORLDS, seed=told.seed)
        noise = torch.Generator().manual_seed(told.seed)
        ends = 0
        for block in read.blocks(gmi):
            next_obs = block.next_obs()
            for t in range(block.steps):
                drawn = torch.randn(WORLDS, SPEC.action.size, generator=noise) if stochastic else None
                assert torch.equal(block.obs[t], task.obs) and torch.equal(block.action[t], agent.act(task.obs, drawn))
                _, reward, terminated, truncated, info = task.step(block.action[t])
                assert torch.equal(block.reward[t], reward) and torch.equal(block.valid[t], info["valid"])
                assert torch.equal(block.terminated[t], terminated) and torch.equal(block.truncated[t], truncated)
                assert torch.equal(next_obs[t], info["final_obs"])
                for n in range(WORLDS):
                    assert torch.equal(read[place]["next_obs"], info["final_obs"][n])
                    place += 1
            assert torch.equal(block.last_obs, task.obs)
            ends += len(block.final_obs)
        assert ends == served.gmis[gmi].episodes > 0
    assert not children_of(os.getpid())


def test_ctrl_c_keeps_what_was_done(served_run, tmp_path, monkeypatch):
    events, signalled = serving.GMIProcesses.events, []

    def interrupt_after_a_shard(processes, **more):
        for event in events(processes, **more):
            if isinstance(event, serving.GMIMessage) and isinstance(event.message, serving.Wrote) and not signalled:
                signalled.append(os.kill(os.getpid(), signal.SIGINT))
            yield event

    monkeypatch.setattr(serving.GMIProcesses, "events", interrupt_after_a_shard)
    served = serve(layout(1), served_run, steps=10**6, experience=tmp_path / "experience")
    read = ExperienceDataset(tmp_path / "experience")
    assert served.signal is signal.SIGINT and read.index.state == "stopped"
    assert 0 < len(read) == served.gmis[0].env_steps < 10**6
    assert sum(block.steps for block in read.blocks(0)) == served.gmis[0].steps


@two_cores
def test_what_was_whole_when_a_gmi_died_is_kept(served_run, tmp_path, monkeypatch):
    events = serving.GMIProcesses.events

    def kill_after_a_shard_of_the_other(processes, **more):
        for event in events(processes, **more):
            yield event
            if isinstance(event, serving.GMIMessage) and isinstance(event.message, serving.Wrote) and event.gmi_id == 1:
                os.kill(processes._children[0].pid, signal.SIGKILL)

    monkeypatch.setattr(serving.GMIProcesses, "events", kill_after_a_shard_of_the_other)
    with pytest.raises(GmiDiedError, match=r"GMI 0 .* SIGKILL"):
        serve(layout(2), served_run, steps=10**6, experience=tmp_path / "experience")
    read = ExperienceDataset(tmp_path / "experience")
    assert read.index.state == "failed" and sum(block.steps for block in read.blocks(1)) >= IN_SHARD
    assert len(list(read.blocks(0))) == len(read.index.gmis[0].shards)
    assert not children_of(os.getpid())


def small_disk(path):
    """Of 1 MiB, mounted; skips the test where that is not allowed."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    return path


def test_a_disk_that_is_full_ends_it_with_what_is_whole(served_run, tmp_path, monkeypatch):
    disk = small_disk(tmp_path / "small")
    try:
        with pytest.raises(MachineError, match=r"1\.0 MiB are free, the experience needs 6\.4 GiB"):
            serve(layout(1), served_run, steps=10**7, experience=disk / "experience")
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 2**60})())
        with pytest.raises(GmiError, match=r"GMI 0: .*experience cannot be written: No space left on device") as full:
            serve(layout(1), served_run, steps=10**7, experience=disk / "experience")
        assert full.value.exit_code == MachineError.exit_code
        read = ExperienceDataset(disk / "experience")
        assert read.index.state == "failed" and len(read) == sum(block.valid.sum() for block in read.blocks(0)) > 0
        assert not list(read.folder.glob(".*"))
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    assert not children_of(os.getpid())


def test_what_cannot_be_written_is_refused_before_anything_starts(served_run, tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "hold_devices", lambda *args, **more: pytest.fail("devices were claimed"))
    (tmp_path / "other").touch()
    with pytest.raises(UsageError, match="is not empty, it has other"):
        serve(layout(1), served_run, steps=1, experience=tmp_path)
    with pytest.raises(UsageError, match="GMIs of a cluster cannot write experience into a folder of this machine"):
        serve(layout(1), served_run, steps=1, experience=tmp_path / "new", supervisors=lambda *args: None)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
