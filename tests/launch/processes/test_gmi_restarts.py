"""Processes that are started in the place of others, as their launcher has it; processes are pairs of sockets here."""

import os
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import open_descriptors, tiny_config, tiny_layout

from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.errors import GmiDiedError, GmiError
from gmi_drl.gmi.inventory import core_load
from gmi_drl.launch.job import Job
from gmi_drl.launch.processes import children, stopped
from gmi_drl.launch.processes import gmi_processes as module
from gmi_drl.launch.processes.events import GMIMessage
from gmi_drl.launch.processes.gmi_processes import GMIProcesses
from gmi_drl.launch.processes.gmi_restarts import GMIRestarts, Restarts, kept_open
from gmi_drl.roles.launcher.connection import encode, socket_pair
from gmi_drl.roles.launcher.protocol import Attached, Done, Failed, Report
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.run.folder import RunFolder

AGENT, TRAINER = 0, 1


class Pretended:
    """A `GMIHandle` without a process: a test says what it says, and ends it."""

    where, log = "", Path("nowhere")

    def __init__(self, number, order):
        self.pid, self.order, self.code = 10**9 + number, order, None
        self._line, self._theirs = socket_pair()
        self._line.setblocking(False)
        self.exit_fd, self._exit = os.pipe()
        self.is_ended = False

    @property
    def connection_fd(self):
        return self._line.fileno()

    def tell(self, *words):
        for word in words:
            self._theirs.send(encode(word))
        return self

    def die(self, code=-9):
        self.code = code
        self._theirs.close()
        os.close(self._exit)

    def receive(self):
        try:
            return self._line.recv(1 << 16)
        except BlockingIOError:
            return None

    def send(self, message):
        pass

    def exit_code(self, wait_s):
        return self.code

    def ask_to_end(self):
        os.fstat(self.exit_fd)  # EBADF if it is closed

    def show_stacks(self):
        pass

    def end(self):
        self.is_ended = True

    def close(self):
        self._line.close()
        os.close(self.exit_fd)
        with suppress(OSError):
            self.die()

    def last_words(self, most):
        return []


class Launched:
    """An agent that may be restartable, and a trainer."""

    def __init__(self, processes, started, told):
        self.processes, self.started, self.told = processes, started, told

    def newest(self, number):
        return next(one for one in reversed(self.started) if one.order["gmi"] == number)

    def heard(self):
        """What comes until nothing more does: rows."""
        events = islice(self.processes.events(silence_s=60), 6)  # a tick at least between any two
        return [event.message.row for event in events if isinstance(event, GMIMessage)]


@pytest.fixture
def launch(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TICK_S", 0.02)
    monkeypatch.setattr(module, "BLAME_S", 0.02)

    @contextmanager
    def begin(restarts=2, starts=10):
        folder, started, told = RunFolder(tmp_path / "run"), [], []
        folder.create()

        def start(order, environment, log, resources):
            if len(started) == starts:
                raise OSError(12, "Cannot allocate memory")
            started.append(Pretended(len(started), order))
            return started[-1]

        restarting = GMIRestarts(frozenset({AGENT}), Restarts(restarts, told.append))
        resources = {gmi: Resources() for gmi in (AGENT, TRAINER)}
        instances = SimpleNamespace(
            drains=False, environment=lambda gmi: {}, release=lambda pids: None, prove_attached=lambda gmi, pid: None
        )
        job = Job(tiny_layout(2), tiny_config(), folder, {}, 64)
        with GMIProcesses(job, {}, instances, start, resources, {}, restarting) as processes:
            launched = Launched(processes, started, told)
            for number in (AGENT, TRAINER):
                launched.newest(number).tell(Attached())
            yield launched
        assert all(one.is_ended for one in started)

    return begin


def test_another_process_is_told_how_many_were_before_it(launch):
    with launch() as run:
        run.newest(TRAINER).tell(Report({"a": 1}))
        assert run.heard() == [{"a": 1}]
        for predecessors in (1, 2):
            run.newest(AGENT).die()
            assert run.heard() == []
            assert run.newest(AGENT).order["predecessors"] == predecessors
        assert len(run.started) == 4 and run.started[0].is_ended and run.newest(TRAINER).order["agents_are_restarted"]
        assert [line.rpartition("again alone, ")[2] for line in run.told] == ["1 restart left", "0 restarts left"]
        run.newest(AGENT).tell(Attached()).die()
        with pytest.raises(GmiDiedError, match=r"GMI 0 .* SIGKILL"):
            run.heard()


def test_before_a_role_has_reported_nobody_is_succeeded(launch):
    with launch() as run:
        run.newest(AGENT).die()
        with pytest.raises(GmiDiedError, match="GMI 0"):
            run.heard()
        assert len(run.started) == 2 and run.told == []


def lose_another(run):
    run.newest(AGENT).die()
    run.newest(TRAINER).die()


def complain(run):
    run.newest(TRAINER).tell(Failed(message="GMI 0 is silent", exit_code=1, blames_peer=True))
    run.newest(AGENT).die()


@pytest.mark.parametrize("end", [lose_another, complain])
def test_where_the_run_ends_all_the_same_no_restart_is_wasted(launch, end):
    with launch() as run:
        run.newest(TRAINER).tell(Report({}))
        run.heard()
        end(run)
        with pytest.raises(GmiError, match=r"GMI [01]"):
            run.heard()
        assert len(run.started) == 2 and run.told == []


class Clock:
    """`Waiting` by a clock that a test sets."""

    now_s = 0.0

    def __init__(self):
        self.began_s = Clock.now_s

    def look(self):
        return Clock.now_s - self.began_s


def test_a_successor_has_a_time_to_start_of_its_own_and_is_late_though_others_go_on(launch, monkeypatch):
    for one in (module, children):
        monkeypatch.setattr(one, "WaitClock", Clock)
    with launch() as run:
        run.newest(TRAINER).tell(Report({}))
        events = run.processes.events(silence_s=1e6)
        assert any(isinstance(event, GMIMessage) for event in islice(events, 6))
        Clock.now_s += module.START_S + 1  # in which nobody has said anything
        run.newest(AGENT).die()
        assert len(list(islice(events, 6))) == 6 and len(run.started) == 3
        Clock.now_s += module.START_S + 1
        run.newest(TRAINER).tell(Report({}))
        with pytest.raises(GmiError, match=r"GMI 0 has not started within 120 s"):
            list(islice(events, 6))


@pytest.mark.parametrize(("where", "load", "notes"), [("", 5.0, 1), ("", 4.0, 0), (" on node 7", 5.0, 0)])
def test_a_process_that_is_late_on_a_busy_machine_says_how_busy_it_is(launch, monkeypatch, where, load, notes):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 1.0, 1.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(core_load, "LOOK_S", 0.0)
    monkeypatch.setattr(Pretended, "where", where)
    with launch() as run:
        told = getattr(run.processes._errors.late(AGENT, 120), "__notes__", [])
    assert len(told) == notes
    assert all(note.startswith("This machine is busy, a load average of 5.0 on 4 cores") for note in told)
    assert all(note.endswith("use fewer GMIs") for note in told)


def test_when_all_others_are_done_a_successor_that_still_loads_is_not_waited_for(launch):
    with launch() as run:
        run.newest(TRAINER).tell(Report({}))
        run.heard()
        run.newest(AGENT).die()
        run.heard()
        run.newest(TRAINER).tell(Done(result={}))
        assert len(list(islice(run.processes.events(), 50))) < 50, "it ends"
        assert run.processes.results == {TRAINER: {}}


def test_when_others_are_done_nobody_is_started(launch):
    with launch() as run:
        run.newest(TRAINER).tell(Report({}), Done(result={}))
        run.heard()
        run.newest(AGENT).die()
        with pytest.raises(GmiDiedError, match="GMI 0"):
            run.heard()
        assert run.told == []


def test_a_successor_that_cannot_be_started_is_an_error_and_all_others_are_ended(launch):
    before = open_descriptors()
    with pytest.raises(GmiDiedError, match="GMI 0") as death, launch(starts=2) as run:
        run.newest(TRAINER).tell(Report({}))
        run.heard()
        run.newest(AGENT).die()
        run.heard()
    assert "It cannot be started again: [Errno 12] Cannot allocate memory" in death.value.__notes__
    assert open_descriptors() == before


def test_what_is_kept_open_are_all_descriptors_of_the_same_things():
    before, mailboxes = open_descriptors(), create_mailboxes(range(2))
    resources = {
        0: Resources(mailboxes=mailboxes, channels=os.memfd_create("channels")),
        1: Resources(mailboxes=mailboxes),
    }
    with kept_open(resources, [0]) as kept:
        mailboxes.close()
        os.close(resources[0].channels)
        assert list(kept) == [0] and len(kept[0].descriptors) == len(resources[0].descriptors) == 4
        assert not kept[0].descriptors & resources[0].descriptors
        assert all(os.fstat(descriptor) for descriptor in kept[0].descriptors)
        assert os.readlink(f"/proc/self/fd/{kept[0].channels}").startswith("/memfd:channels")
    assert open_descriptors() == before


def test_a_process_of_another_host_is_not_looked_for_among_the_stopped_ones_here(launch, monkeypatch):
    monkeypatch.setattr(stopped, "LOOK_S", 0.0)
    monkeypatch.setattr(stopped, "is_stopped", lambda pid: True)
    with launch() as run:
        run.newest(AGENT).where = run.newest(TRAINER).where = ", node b"
        run.processes._check_stopped(0.0)
        run.newest(AGENT).where = ""
        with pytest.raises(GmiError, match=r"^GMI 0 was stopped \(SIGSTOP\)"):
            while True:
                run.processes._check_stopped(0.0)
