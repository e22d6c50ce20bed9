"""The queue, with small programs in place of trainings."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from signal import Signals

import pytest

from gmi_drl.errors import InUseError, LayoutMismatchError, MachineError
from gmi_drl.gmi import claims
from gmi_drl.launch.processes.reaper import Reaper
from gmi_drl.launch.ray.cluster import RayNode
from gmi_drl.launch.ray.placement import NODE_VARIABLE
from gmi_drl.launch.signals import EndedAtOnce, Stage, StopRequest
from gmi_drl.launch.sweep import trial_process
from gmi_drl.launch.sweep.early_stop import MedianRule
from gmi_drl.launch.sweep.queue import STOP_S, TRIES, Queue
from gmi_drl.launch.sweep.run_sweep import Listener, locked_sweep, run_sweep
from gmi_drl.launch.sweep.slots import make_slots, slots_on_nodes
from gmi_drl.launch.sweep.sweep_file import Sweep, make_trials, write_sweep
from gmi_drl.launch.sweep.table import results
from gmi_drl.launch.sweep.trial_process import Ended, command_of, last_line, log_file, read_ended, words_of, write_ended

TOY = (sys.executable, str(Path(__file__).with_name("toy_training.py")))
CORE = min(os.sched_getaffinity(0))
RUN_TOYS = """
import sys
from pathlib import Path
from gmi_drl.launch.sweep import run_sweep, trial_process
from gmi_drl.launch.signals import EndedAtOnce, Stage, StopRequest
from gmi_drl.launch.sweep.sweep_file import read_sweep
trial_process.OURS = tuple(sys.argv[2:])
folder = Path(sys.argv[1])
listener = run_sweep.Listener(print, lambda trial, ended, busy_s: None)
run_sweep.run_sweep(folder, read_sweep(folder), StopRequest(Stage.RUNNING), listener)
"""


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.setattr(trial_process, "OURS", TOY)


def running():
    return StopRequest(Stage.RUNNING)


def run(folder, sweep, at_once=2, **others):
    folder.mkdir(exist_ok=True)
    return Queue(folder, sweep, make_slots(at_once, [CORE], []), running(), **others).run()


def table(folder, sweep):
    return [(line.settings, line.returns, line.done, line.failed) for line in results(folder, sweep)]


def toy_sweep(seeds=3, **others):
    return Sweep(trials=make_trials(range(seeds), {"rate": ["1", "2"]}), at_once=2, **others)


def test_all_trials_run_and_the_table_is_best_first(tmp_path, toys):
    sweep, ended = toy_sweep(), []
    assert run(tmp_path / "a", sweep, on_end=lambda trial, how, busy_s: ended.append(busy_s))
    assert 0 < ended[0] <= ended[-1] and ended == sorted(ended)
    assert table(tmp_path / "a", sweep) == [
        ({"rate": "2"}, {0: 24, 1: 25, 2: 26}, 3, 0),
        ({"rate": "1"}, {0: 12, 1: 13, 2: 14}, 3, 0),
    ]
    assert results(tmp_path / "a", sweep)[0].best == str(tmp_path / "a" / "5-rate=2-seed2") and len(ended) == 6


def test_a_sweep_that_is_killed_again_and_again_ends_with_the_same_table(tmp_path, toys):
    sweep, drawn = toy_sweep(), random.Random(0)
    run(tmp_path / "whole", sweep)
    folder = tmp_path / "killed"
    folder.mkdir()
    write_sweep(folder, sweep)
    command = [sys.executable, "-c", RUN_TOYS, str(folder), *TOY]
    for _ in range(4):
        with subprocess.Popen(command) as process:
            begun = time.monotonic()
            while time.monotonic() < begun + 60 and not any(folder.glob("*/metrics.jsonl")):
                time.sleep(0.02)
            time.sleep(drawn.uniform(0, 0.4))
            process.send_signal(signal.SIGKILL)
    subprocess.run(command, check=True, timeout=120)
    assert table(folder, sweep) == table(tmp_path / "whole", sweep)


def test_trials_die_with_their_sweep_and_so_does_what_they_have_started(tmp_path):
    sweep = Sweep(command="sh -c 'trap : TERM; sleep 600 & echo $$ $!; wait; sleep 600'", trials=make_trials([0], {}))
    write_sweep(tmp_path, sweep.model_copy(update={"at_once": 1}))
    log = log_file(tmp_path, sweep.trials[0])
    with subprocess.Popen([sys.executable, "-c", RUN_TOYS, str(tmp_path)]) as process:
        deadline = time.monotonic() + 60
        while not (log.exists() and log.read_text().endswith("\n")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
    begun = log.read_text().split()
    while any(Path(f"/proc/{pid}/cwd").exists() for pid in begun) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(begun) == 2 and not any(Path(f"/proc/{pid}/cwd").exists() for pid in begun)


def test_programs_of_others_get_their_values_and_their_slot(tmp_path):
    command = """sh -c 'echo {name} {seed} {a.b} $OMP_NUM_THREADS $GMI_DRL_SLOT; exit {seed}'"""
    sweep = Sweep(command=command, trials=make_trials([0, 3], {"a.b": ["x"]}), at_once=1)
    assert run(tmp_path, sweep, at_once=1)
    assert (tmp_path / "logs" / "0-seed0.log").read_text() == "0-seed0 0 x 1 0\n"
    (line,) = results(tmp_path, sweep)
    assert (line.done, line.failed, line.returns) == (1, 1, {})
    assert (tmp_path / "logs" / "1-seed3.log").read_text().count("seed3") == 2, "a failure is tried once more"


def test_a_signal_stops_trials_which_wait_again(tmp_path):
    sweep, request = Sweep(command="sleep 600", trials=make_trials([0, 1, 2], {})), running()
    queue = Queue(tmp_path, sweep, make_slots(2, [CORE], []), request)
    queue._fill()
    assert len(queue.running) == 2
    request.signal = Signals.SIGINT
    assert not queue.run() and len(queue.waiting) == 3 and not any(read_ended(tmp_path, t) for t in sweep.trials)


def test_a_device_that_another_run_took_is_waited_for(tmp_path, toys):
    sweep, told = toy_sweep(seeds=1), []
    queue = Queue(tmp_path, sweep, [], running(), tell=told.append)
    write_log(tmp_path, sweep.trials[0], "core-0 is in use by process 7")
    for _ in range(TRIES + 1):
        first = queue.waiting.popleft()
        queue._end(first, Ended(InUseError.exit_code, 0.1))
        assert queue.waiting[0] == first and read_ended(tmp_path, first) is None
    assert told == [f"{first.name} waits: core-0 is in use by process 7"], "once"


def test_a_node_that_has_left_its_cluster_gets_no_more_trials(tmp_path, toys, monkeypatch):
    monkeypatch.setattr(trial_process, "OURS", ("sh", "-c", f'[ "${NODE_VARIABLE}" = 2b ] || {{ echo gone; exit 5; }}'))
    nodes = [RayNode("1a", "a", "", cpus=1, gpus=0), RayNode("2b", "b", "", cpus=1, gpus=0)]
    slots, told = slots_on_nodes(nodes, 1, [CORE], []), []
    sweep = Sweep(trials=make_trials([0, 1, 2], {}), launcher="ray")
    tmp_path.joinpath("logs").mkdir()
    assert Queue(tmp_path, sweep, slots, running(), tell=told.append, living_nodes=lambda: nodes[1:]).run()
    assert [read_ended(tmp_path, trial).exit_code for trial in sweep.trials] == [0, 0, 0]
    assert told == ["a gets no more trainings, 1 slot less: gone"]
    with pytest.raises(MachineError, match="no node of the Ray cluster is left: go on with gmi-drl sweep --resume"):
        Queue(
            tmp_path,
            Sweep(trials=make_trials([7], {}), launcher="ray"),
            slots[:1],
            running(),
            living_nodes=lambda: nodes[1:],
        ).run()


def test_a_trial_that_fits_on_no_node_has_failed_and_costs_no_node(tmp_path, monkeypatch):
    script = 'case "$*" in *"--seed 1 "*) echo too large; exit 5;; esac'
    monkeypatch.setattr(trial_process, "OURS", ("sh", "-c", script, "train"))
    nodes = [RayNode("1a", "a", "", cpus=1, gpus=0), RayNode("2b", "b", "", cpus=1, gpus=0)]
    sweep, told = Sweep(trials=make_trials([0, 1, 2], {}), launcher="ray"), []
    tmp_path.joinpath("logs").mkdir()
    slots = slots_on_nodes(nodes, 1, [CORE], [])
    assert Queue(tmp_path, sweep, slots, running(), tell=told.append, living_nodes=lambda: nodes).run()
    assert [read_ended(tmp_path, trial).exit_code for trial in sweep.trials] == [0, 5, 0] and told == []


def test_a_trial_of_a_cluster_is_begun_and_resumed_there(tmp_path):
    sweep = toy_sweep(launcher="ray")
    assert command_of(tmp_path, sweep, sweep.trials[0])[-2:] == ["--launcher", "ray"]
    assert "--launcher" not in command_of(tmp_path, toy_sweep(), sweep.trials[0])
    saved = tmp_path / sweep.trials[0].name / "checkpoints" / "000001"
    saved.mkdir(parents=True)
    (saved / "checkpoint.json").touch()
    resumed = ["--resume", str(tmp_path / sweep.trials[0].name), "--launcher", "ray"]
    assert command_of(tmp_path, sweep, sweep.trials[0])[-4:] == resumed


def test_a_machine_that_lacks_something_is_not_waited_for(tmp_path):
    sweep, trial = toy_sweep(seeds=1), toy_sweep(seeds=1).trials[0]
    queue = Queue(tmp_path, sweep, [], running())
    for _ in range(TRIES):
        queue.waiting.remove(trial)
        queue._end(trial, Ended(LayoutMismatchError.exit_code, 0.1))
    assert trial not in queue.waiting and read_ended(tmp_path, trial) == Ended(LayoutMismatchError.exit_code, 0.1)


def test_the_last_line_is_of_a_log_of_any_size(tmp_path):
    (trial,) = make_trials([0], {})
    assert last_line(tmp_path, trial) == "its log cannot be read"
    write_log(tmp_path, trial, "")
    assert last_line(tmp_path, trial) == "it has printed nothing"
    write_log(tmp_path, trial, "a line\n" * 10_000 + "the last")
    assert last_line(tmp_path, trial) == "the last"


def write_log(folder, trial, text):
    log_file(folder, trial).parent.mkdir(exist_ok=True)
    log_file(folder, trial).write_text(text + "\n\n")


def test_settings_that_are_refused_are_not_tried_again(tmp_path):
    sweep = toy_sweep(seeds=1)
    queue = Queue(tmp_path, sweep, [], running())
    queue._end(queue.waiting.popleft(), Ended(2, 0.1))
    assert len(queue.waiting) == 1 and read_ended(tmp_path, sweep.trials[0]) == Ended(2, 0.1)


def test_an_error_in_a_sweep_is_not_taken_for_another_process_that_runs_it(tmp_path):
    with pytest.raises(BlockingIOError, match="of a pipe"), locked_sweep(tmp_path):
        raise BlockingIOError("of a pipe")


def test_a_sweep_that_cannot_be_locked_says_so(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", fail)
    with pytest.raises(MachineError, match=r": \.lock cannot be locked: No locks available"), locked_sweep(tmp_path):
        pass
    with pytest.raises(MachineError, match=r": \.lock cannot be written: No such"), locked_sweep(tmp_path / "none"):
        pass


def test_a_sweep_runs_once_at_a_time(tmp_path):
    with locked_sweep(tmp_path), pytest.raises(InUseError, match="another process runs this sweep"):
        run_sweep(tmp_path, toy_sweep(), running(), Listener(print, lambda trial, ended, busy_s: None))


def test_the_median_rule_needs_three_finished_trials(tmp_path, toys):
    sweep = Sweep(trials=make_trials([0, 10, 11, 12, 13], {}), at_once=2)
    run(tmp_path, sweep.model_copy(update={"trials": sweep.trials[1:4]}))
    rule = MedianRule(tmp_path, sweep)
    worst = sweep.trials[0]
    assert not rule.is_hopeless(worst), "it has no row"
    run(tmp_path, sweep.model_copy(update={"trials": sweep.trials[:1]}))
    (tmp_path / worst.name / "state.json").unlink()
    for trial in sweep.trials[1:4]:
        write_ended(tmp_path, trial, Ended(0, 1.0))
    (tmp_path / "ended" / f"{worst.name}.json").unlink()
    assert MedianRule(tmp_path, sweep).is_hopeless(worst)
    (tmp_path / "ended" / f"{sweep.trials[1].name}.json").write_text('{"exit_code": 1, "seconds": 1}')
    assert not MedianRule(tmp_path, sweep).is_hopeless(worst)


def test_words_keep_quotes_and_braces_of_others():
    trial = make_trials([4], {"lr": ["1e-3"]})[0]
    assert words_of("run --x '{a} b' --lr={lr} {seed}", trial) == ["run", "--x", "{a} b", "--lr=1e-3", "4"]


HOLDS = """
import sys
from gmi_drl.launch.sweep.slots import make_slots
with make_slots(1, [int(sys.argv[1])], [])[0].held("sweep b"):
    print("held", flush=True)
    sys.stdin.read()
"""
REMEDY = "wait for it, stop it, or start on others with `taskset -c LIST`"

UNTIL_ASKED = "while [ $(grep -c asked logs/{name}.log) = 0 ]; do sleep 0.05; done"
COUNTING = f"""sh -c 'trap "echo asked" TERM; echo up; {UNTIL_ASKED}; sleep 0.5; true'"""
"""Ends well some time after it has been asked, and says how often it was."""


def test_a_trial_is_asked_once_to_end_and_one_that_was_stopped_early_is_not_run_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep, request = Sweep(command=COUNTING, trials=make_trials([0, 1], {})), running()
    queue = Queue(tmp_path, sweep, make_slots(2, [CORE], []), request)
    queue._fill()
    logs = [log_file(tmp_path, trial) for trial in sweep.trials]
    deadline = time.monotonic() + 60
    while any(log.read_text() != "up\n" for log in logs) and time.monotonic() < deadline:
        time.sleep(0.02)
    queue.running[0].stop(early=True)
    while "asked" not in logs[0].read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    request.signal = Signals.SIGTERM
    assert not queue.run()
    assert [log.read_text() for log in logs] == ["up\nasked\n"] * 2
    early, other = (read_ended(tmp_path, trial) for trial in sweep.trials)
    assert early.early and other is None and list(queue.waiting) == [sweep.trials[1]]


def test_another_program_holds_its_core_against_trainings_and_other_sweeps(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "PATIENCE_S", 0.05)
    (slot,), told = make_slots(1, [CORE], []), []
    told_by = lambda words, **more: subprocess.run(words, capture_output=True, text=True, **more)  # noqa: E731
    claim_it = [sys.executable, "-c", f"from gmi_drl.gmi import claim\nwith claim(['core-{CORE}'], 'x'): print('held')"]
    with slot.held("sweep a"):
        assert "in use by other processes" in told_by(claim_it).stderr
        assert told_by(claim_it, env=os.environ | slot.environment(is_held=True)).stdout == "held\n", "if it is a trial"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(CORE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        assert not slot.is_free()
        queue = Queue(tmp_path, Sweep(command="true", trials=make_trials([0], {})), [slot], running(), tell=told.append)
        monkeypatch.setattr(type(slot), "is_free", lambda slot: True)  # it was, a moment before
        with closing(Reaper()) as queue._reaper:
            queue._start(slot)
        holder.stdin.close()
    assert not queue.running and len(queue.waiting) == 1
    assert told == [f"0-seed0 waits: core-{CORE} is in use by process {holder.pid} (sweep b): {REMEDY}"]


def test_a_second_signal_kills_the_trials_that_have_not_ended_yet(tmp_path):
    command = "sh -c 'trap : TERM; echo $$; while :; do sleep 0.1; done'"
    sweep, request = Sweep(command=command, trials=make_trials([0], {})), running()
    queue = Queue(tmp_path, sweep, make_slots(1, [CORE], []), request)
    queue._fill()
    log, deadline = log_file(tmp_path, sweep.trials[0]), time.monotonic() + 60
    while not log.read_text().endswith("\n") and time.monotonic() < deadline:
        time.sleep(0.02)
    leader = queue.running[0].leader
    known, stops = leader.exit_code, iter([lambda: request.handle(signal.SIGINT, None)])
    leader.exit_code = lambda wait_s: known(wait_s) if wait_s < STOP_S / 2 else next(stops)()
    request.handle(signal.SIGINT, None)
    with pytest.raises(EndedAtOnce):
        queue.run()
    assert not queue.running and not Path(f"/proc/{log.read_text().strip()}").exists()


def test_a_program_of_a_sweep_may_be_a_sweep(tmp_path, monkeypatch):
    (slot,) = make_slots(1, [CORE], [])
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(CORE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n" and not slot.is_free()
        monkeypatch.setenv("GMI_DRL_SHARED", slot.environment(is_held=True)["GMI_DRL_SHARED"])
        assert slot.is_free()
        with slot.held("a sweep within sweep b"):
            pass
        holder.stdin.close()
