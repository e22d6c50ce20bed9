"""What a supervisor does at each moment of a run at which somebody may die or a signal may come; nothing is started."""

import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import tiny_config, tiny_layout

from gmi_drl.errors import GmiDiedError, MissingNodeError
from gmi_drl.launch import supervisor as module
from gmi_drl.launch.job import resolve
from gmi_drl.launch.leaders import Leaders
from gmi_drl.launch.processes.gmi_handle import LOST
from gmi_drl.launch.processes.gmi_restarts import Losses, Restarts
from gmi_drl.launch.signals import EndedAtOnce, Stage, stop_on_signals
from gmi_drl.launch.supervisor import Outcome, Supervisor
from gmi_drl.roles.launcher.protocol import Stop
from gmi_drl.run.folder import RunFolder

sys.path.append(str(Path(__file__).parent / "nodes"))
from on_two import over

DEATH = GmiDiedError("GMI 1 was killed by SIGKILL\n  its log is somewhere", 1, -9)
DONE = Outcome("done", 12, None, Path("000012"))


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


class Scripted:
    """A supervisor whose starts do, each in its turn, what a script says while devices are held and in the training."""

    def __init__(self, monkeypatch, holds=(), trains=(), saved=4, restarts=2):
        self.told, self.started, self._holds, self._trains = [], [], list(holds), list(trains)
        checkpoints = [Path(f"{saved:06}")] if saved else []
        monkeypatch.setattr(module, "list_checkpoints", lambda folder: checkpoints)
        monkeypatch.setattr(RunFolder, "resumable", lambda folder: checkpoints)
        monkeypatch.setattr(Supervisor, "_train", self._train)
        self.restarts = Restarts(restarts, self.told.append)

    @contextmanager
    def _hold(self, layout):
        self.play(self._holds)
        yield

    def _train(self, claim, resume):
        self.started.append((self.supervisor.job.layout, resume))
        self.play(self._trains)
        return DONE

    @staticmethod
    def play(script):
        for deed in script.pop(0) if script else ():
            if isinstance(deed, Exception):
                raise deed
            deed()

    def run(self, layout=None, resume=None, config=None):
        with stop_on_signals(Stage.STARTING) as self.request:
            self.restarts.are_wanted = lambda: self.request.signal is None
            job = resolve(layout or tiny_layout(2), config or tiny_config(iterations=12), RunFolder(Path("run")))
            nothing = [lambda *told: None] * 3
            self.supervisor = Supervisor(job, None, self.request, self.restarts, self._hold, *nothing)
            return self.supervisor.run(resume)


def test_a_run_goes_on_after_deaths(monkeypatch):
    run = Scripted(monkeypatch, trains=[[DEATH], [DEATH]])
    assert run.run() is DONE
    assert [resume for _, resume in run.started] == [None, Path("000004"), Path("000004")]
    assert run.told[1] == "GMI 1 was killed by SIGKILL: going on from iteration 4, 0 restarts left"


@pytest.mark.parametrize(
    ("more", "reason"),
    [({"restarts": 0}, "no restart"), ({"saved": 0}, "no checkpoint"), ({"trains": [[DEATH]] * 3}, "too many")],
)
def test_death_ends_run_without_restart_or_checkpoint(monkeypatch, more, reason):
    run = Scripted(monkeypatch, **{"trains": [[interrupt, DEATH]] * ("trains" not in more), **more})
    with pytest.raises(GmiDiedError):
        run.run()


def ignore_signals(run):
    """What the training does first when it ends."""
    return lambda: run.request.only_store()


@pytest.mark.parametrize(
    ("holds", "trains"),
    [
        ([], [[interrupt, DEATH]]),  # who is asked to stop dies
        ([], [["ignore_signals", interrupt, DEATH]]),  # between a death and its restart: while all are ended
        ([], [["ignore_signals", interrupt, interrupt, DEATH]]),
        ([[], [interrupt]], [[DEATH]]),  # while devices are held for the restart
    ],
)
def test_once_a_signal_has_come_nobody_is_started_again(monkeypatch, holds, trains):
    run = Scripted(monkeypatch, holds)
    run._trains = [[ignore_signals(run) if deed == "ignore_signals" else deed for deed in deeds] for deeds in trains]
    assert run.run() == Outcome("stopped", 4, signal.SIGINT, Path("000004"))
    assert len(run.started) == 1


def test_a_second_signal_while_a_run_starts_again_ends_it_at_once(monkeypatch):
    run = Scripted(monkeypatch, holds=[[], [interrupt, interrupt]], trains=[[DEATH]])
    with pytest.raises(EndedAtOnce):
        run.run()


def test_before_devices_are_held_the_first_signal_ends_a_run_at_once(monkeypatch):
    run = Scripted(monkeypatch, holds=[[interrupt]])
    with pytest.raises(EndedAtOnce) as ended:
        run.run()
    assert ended.value.code == 128 + signal.SIGINT and not run.supervisor.has_begun


def test_a_run_whose_iterations_are_all_done_is_done_though_somebody_dies_at_its_end(monkeypatch):
    run = Scripted(monkeypatch, trains=[[DEATH]], saved=12)
    assert run.run() == Outcome("done", 12, None, Path("000012"))
    assert run.told == ["GMI 1 was killed by SIGKILL: not started again, since all iterations are done"]


@pytest.mark.parametrize(("deeds", "saved", "state"), [([interrupt], 4, "stopped"), ([], 12, "done")])
def test_a_run_that_needs_no_restart_ends_in_order_though_a_lost_node_leaves_nobody(monkeypatch, deeds, saved, state):
    lost = GmiDiedError("GMI 0 was lost with its node", 0, LOST)
    run = Scripted(monkeypatch, trains=[[*deeds, lost]], saved=saved)
    assert run.run(over("a")).state == state


def test_a_run_of_which_a_lost_node_leaves_nobody_ends(monkeypatch):
    with pytest.raises(GmiDiedError):
        Scripted(monkeypatch, trains=[[GmiDiedError("GMI 0 was lost with its node", 0, LOST)]]).run(over("a"))


def test_a_run_whose_time_is_over_is_not_started_again(monkeypatch):
    run, now = Scripted(monkeypatch), SimpleNamespace(s=100.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: now.s)
    row = {"iteration": 1, "sim_s": 1.0, "act_s": 0.5, "learn_s": 0.5, "sync_s": 0.0}
    tell = lambda: run.supervisor._write(row, SimpleNamespace(write=lambda row: None))  # noqa: E731
    later = lambda seconds: lambda: setattr(now, "s", now.s + seconds)  # noqa: E731
    run._trains = [[tell, later(30), DEATH], [tell, later(30), DEATH]]
    outcome = run.run(config=tiny_config(iterations=12, time_limit_s=50))
    assert outcome == Outcome("done", 4, None, Path("000004")) and len(run.started) == 2
    assert run.told[1].endswith("not started again, since its time is over: it stands at iteration 4")


def test_a_node_that_is_found_dead_while_a_run_starts_again_takes_another_restart(monkeypatch):
    missing = MissingNodeError("node b has not connected: its supervisor has ended with code 1", ["b"])
    lost = GmiDiedError("GMI 0 was lost with its node", 0, LOST)
    run = Scripted(monkeypatch, holds=[[], [missing], []], trains=[[lost]])
    assert run.run(over("a", "b", "c")) is DONE
    assert [layout.nodes for layout, _ in run.started] == [("a", "b", "c"), ("c",)]
    assert [line.partition(": going on from iteration 4 ")[2] for line in run.told] == [
        "on b, c, 1 restart left",
        "on c, 0 restarts left",
    ]


def test_a_node_that_does_not_come_at_first_ends_the_run(monkeypatch):
    missing = MissingNodeError("node b has not connected", ["b"])
    with pytest.raises(MissingNodeError):
        Scripted(monkeypatch, holds=[[missing]]).run(over("a", "b"), resume=Path("000004"))


class Ticking:
    """Stands for processes of which nothing is heard for three ticks, and that note what they are told."""

    layout = tiny_layout(2)

    def __init__(self):
        self.said = []

    def events(self, silence_s):
        return iter(["tick"] * 3)

    def send(self, number, word):
        self.said.append((number, word))


@pytest.mark.parametrize(("sent", "said"), [(signal.SIGTERM, [(0, Stop())]), (None, [])])
def test_a_signal_is_passed_on_once(monkeypatch, sent, said):
    run, processes, nobody = Scripted(monkeypatch), Ticking(), SimpleNamespace(check=lambda: None)
    run.run()
    run.supervisor.presence, run.request.signal = nobody, sent
    leaders = Leaders((0,), processes.send, is_done=lambda _: False, max_lag=0, every_s=None)
    assert run.supervisor._supervise(processes, leaders, None, None, nobody, Losses(tiny_layout(1), str)) is (
        sent is not None
    )
    assert processes.said == said
