"""What may happen to a training, done to real ones started from the command line."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from conftest import children_of, environment, tiny_layout, two_cores

from gmi_drl.files import dump_yaml
from gmi_drl.gmi import allowed_cores, claim
from gmi_drl.run.checkpoint import list_checkpoints, read_index
from gmi_drl.run.folder import RunFolder
from tests.fork_server import SERVER

TINY = ["--set", "learner.horizon=4", "--set", "learner.epochs=1"]
USUAL = {"checkpoint_every": "1", "hang_s": "60"}
"""Settings of a run whose test sets no others."""
TRAIN = [sys.executable, "-c", "from gmi_drl.cli import main; main()", "train"]
COMMAND = [*TRAIN, *TINY]
SMALL_REPLAY = ("learner.horizon=4", "learner.hidden=[8]", "learner.batch=16", "learner.replay.min_size=64")
FROM_REPLAY = [*TRAIN, "--task", "ball_balance", "--algo", "sac", *(f"--set={setting}" for setting in SMALL_REPLAY)]
TWO_GMIS = ["--num-env", "8", "--gmis-per-gpu", "2"]

pytestmark = two_cores


def gmis_of(launcher):
    """The processes of the GMIs, in their order."""
    names = {child: child.cmdline()[-1] for child in children_of(launcher)}
    return sorted((child for child, name in names.items() if re.match(r"GMI \d+ of ", name)), key=names.get)


class Training:
    """`gmi-drl train` under way: its process, its GMIs and its folder."""

    def __init__(self, path, *options, command=COMMAND):
        self.folder = RunFolder(path)
        layout = [] if "layout.yaml" in options else TWO_GMIS
        usual = [f"{key}={value}" for key, value in USUAL.items() if not any(one.startswith(key) for one in options)]
        command = [*command, "--run-dir", str(path), "--iterations", "1000000", *layout, *options]
        command += [part for setting in usual for part in ("--set", setting)]
        self.process = SERVER.popen(
            command,
            gmis_are_forked=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            cwd=path.parent,
            process_group=0,  # as a shell starts it
        )
        self.wait_for_rows(2)
        self.gmis = gmis_of(self.process.pid)

    def wait_for_rows(self, count, deadline_s=90):
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            if self.folder.metrics_file.exists() and len(self.folder.metrics_file.read_text().splitlines()) >= count:
                return
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.1)
        raise AssertionError("no rows")

    def end(self, deadline_s=120):
        """Wait for the end; the exit code, what was printed, and the GMIs that are still there."""
        output, errors = self.process.communicate(timeout=deadline_s)
        return self.process.returncode, output + errors, [gmi for gmi in self.gmis if gmi.is_running()]


@pytest.fixture
def training(tmp_path):
    started = []

    def start(*options, **more):
        started.append(Training(tmp_path / "run", *options, **more))
        return started[-1]

    yield start
    for run in started:
        run.process.kill()
        run.process.communicate()
        psutil.wait_procs(run.gmis, timeout=60)


@pytest.mark.parametrize(
    ("number", "code", "restarts"), [(signal.SIGINT, 130, 0), (signal.SIGHUP, 129, 0), (signal.SIGTERM, 143, 3)]
)
def test_the_first_signal_saves_a_checkpoint_and_tells_how_to_go_on(training, number, code, restarts):
    """systemd and Slurm send it to all processes at once, in no order; no GMI dies of it."""
    run = training("--restarts", str(restarts))
    for process in children_of(run.process.pid):
        process.send_signal(number)
    time.sleep(0.3)
    run.process.send_signal(number)
    returned, printed, left = run.end()
    assert returned == code and not left
    assert f"gmi-drl train --resume {run.folder.path}" in printed and "Traceback" not in printed
    assert "was killed" not in printed, "nobody dies of it, nor is started again"
    (*_, newest) = list_checkpoints(run.folder.checkpoints)
    assert read_index(newest)["iteration"] == int(newest.name) > 0
    assert f"Stopped after iteration {int(newest.name)}" in printed
    assert run.folder.read_state()["state"] == "stopped"


def test_the_second_signal_ends_at_once(training):
    run = training()
    run.gmis[0].suspend()  # it cannot obey the first one
    run.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    run.process.send_signal(signal.SIGTERM)
    returned, printed, left = run.end()
    assert returned == 143 and not left and "Traceback" not in printed
    (*_, newest) = list_checkpoints(run.folder.checkpoints)
    assert f"ended at once; resume from iteration {int(newest.name)} with: gmi-drl train --resume" in printed


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_gmi_ends_the_run_and_is_named(training, victim):
    run = training()
    run.gmis[victim].send_signal(signal.SIGKILL)
    started = time.monotonic()
    returned, printed, left = run.end()
    assert time.monotonic() - started < 60, "by its death, not by its silence (hang_s)"
    assert returned == 1 and not left and "Traceback" not in printed
    assert re.search(rf"GMI {victim} \(process {run.gmis[victim].pid}\) was killed by SIGKILL", printed)
    assert f"gmi-{victim}.log" in printed
    assert run.folder.read_state()["state"] == "failed"
    (*_, newest) = list_checkpoints(run.folder.checkpoints)
    remedy = f"Resume it after iteration {int(newest.name)} with: gmi-drl train --resume {run.folder.path}, or with"
    assert f"{remedy} --restarts 3 to let it resume by itself" in printed


def test_a_silent_gmi_is_an_error_after_hang_s(training):
    run = training("--set", "hang_s=8")
    run.gmis[1].suspend()
    returned, printed, left = run.end()
    assert returned == 1 and not left and "GMI 1 (process" in printed and "has not arrived for 8 s (hang_s)" in printed


def test_nothing_survives_the_launcher(training):
    run = training()
    run.process.kill()
    run.process.communicate()
    _, alive = psutil.wait_procs(run.gmis, timeout=60)
    assert not alive
    assert not [name for name in os.listdir("/dev/shm") if "gmi" in name]
    assert run.folder.read_state()["state"] == "died"


def test_a_folder_that_took_the_place_of_a_runs_gets_nothing_of_it(training, tmp_path):
    """Not even when it does so between two instants."""
    run = training()
    other = tmp_path / "other"
    (other / "checkpoints").mkdir(parents=True)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    paths = [os.fsencode(path) for path in (run.folder.path, other)]
    run.process.send_signal(signal.SIGSTOP)  # it would notice before the GMIs save the next time
    assert ctypes.CDLL(None).renameat2(here, paths[0], here, paths[1], exchange) == 0
    before, deadline = list_checkpoints(other / "checkpoints")[-1:], time.monotonic() + 60
    while list_checkpoints(other / "checkpoints")[-1:] == before and not [*run.folder.checkpoints.iterdir()]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    run.process.send_signal(signal.SIGCONT)
    returned, printed, left = run.end()
    assert returned == 4 and not left and "Traceback" not in printed
    assert not [*run.folder.checkpoints.iterdir()]


@pytest.mark.parametrize("how", ["removed", "replaced", "robbed of its metrics"])
def test_a_run_whose_folder_vanishes_ends_and_leaves_nothing(training, tmp_path, how):
    run = training("--set", "checkpoint_every=1000000")
    path, elsewhere = run.folder.path, tmp_path / "moved"
    lost = run.folder.metrics_file if how == "robbed of its metrics" else path
    if how == "removed":
        shutil.rmtree(lost)
    else:
        lost.rename(elsewhere)
    if how == "replaced":
        run.folder.rendezvous_folder.mkdir(parents=True)  # another run begins there
    returned, printed, left = run.end()
    assert returned == 4 and not left and "Traceback" not in printed
    told = r"(/metrics\.jsonl)? was removed, moved or replaced while the run was writing to it"  # its files go first
    assert re.search(re.escape(str(lost)) + told, " ".join(printed.split()))
    if how == "robbed of its metrics":
        assert run.folder.read_state()["state"] == "failed"
    elif how == "removed":
        assert not path.exists()
    else:
        assert [file.name for file in path.iterdir()] == [".rendezvous"] and not (elsewhere / ".rendezvous").exists()
    with claim([f"core-{core}" for core in allowed_cores()[:2]], "a test"):
        pass


def killed_and_resumed(run):
    """Kill all of a run, and let it go on for two iterations more. Returns how many it has then."""
    run.process.kill()
    run.process.communicate()
    psutil.wait_procs(run.gmis, timeout=60)
    (*_, newest) = list_checkpoints(run.folder.checkpoints)
    more = int(newest.name) + 2
    finish([*TRAIN, "--resume", str(run.folder.path), "--iterations", str(more)])
    assert int(list_checkpoints(run.folder.checkpoints)[-1].name) == more
    return more


def finish(command):
    ended = SERVER.run(command, capture_output=True, text=True, env=environment(), timeout=120)
    assert ended.returncode == 0, ended.stderr


def test_a_gloo_run_goes_on_after_it_was_killed(training, tmp_path):
    (tmp_path / "layout.yaml").write_text(dump_yaml(tiny_layout(2, reduction="MPR-gloo")))
    killed_and_resumed(training("layout.yaml"))


def test_a_run_from_replay_that_was_killed_goes_on_bit_identically(training, tmp_path):
    """Two GMIs, a ring each, and the learner of both; beside a run that nobody has killed."""
    run, whole = training(command=FROM_REPLAY), RunFolder(tmp_path / "whole")
    more = killed_and_resumed(run)
    usual = [f"--set={key}={value}" for key, value in USUAL.items()]
    finish([*FROM_REPLAY, "--run-dir", str(whole.path), "--iterations", str(more), *TWO_GMIS, *usual])
    ends = [read_index(list_checkpoints(folder.checkpoints)[-1]) for folder in (run.folder, whole)]
    assert ends[0]["parts"] == ends[1]["parts"] and len(ends[0]["parts"]) == 3  # the learner, a ring each


def test_a_full_disk_is_told_before_training(tmp_path):
    disk = tmp_path / "small"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, check=False
    ).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        command = [*COMMAND, "--num-env", "8", "--run-dir", str(disk / "run"), "--iterations", "3"]
        run = SERVER.run(command, capture_output=True, text=True, env=environment(), timeout=120)
        assert run.returncode == 4 and "No space left on device" in run.stderr, run.stderr
        assert not (disk / "run" / "metrics.jsonl").read_text() and "Traceback" not in run.stderr
    finally:
        subprocess.run(["umount", disk], check=True)
