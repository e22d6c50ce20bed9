"""Faults of workers: which are drawn, what must follow, and one of them in a training."""

import random
import re
import subprocess
import sys

import pytest
import soak_workers
import soak_workers_faults
from conftest import two_cores
from soak_workers import expected, strike
from soak_workers_faults import CUT, DOWN, LINKS, SLOW, Fault, drawn, drawn_again, layout_of, victims_of

from gmi_drl.templates import WORKERS

VICTIMS = {"actor", "policy worker", "trainer", "proxies"}


def fault_of(victim, **more):
    usual = {"far": True, "remote": True, "several": False, "is_stopped": False, "is_elastic": False, "restarts": 0}
    return Fault(victim=victim, **{**usual, **more})


def test_every_victim_is_drawn_and_all_layouts_are_valid():
    chance = random.Random(3)
    faults, again = [drawn(chance, links=True) for _ in range(400)], [drawn_again(chance) for _ in range(50)]
    assert {fault.victim for fault in faults} == {*VICTIMS, *LINKS} and all(fault.goes_on for fault in again)
    for fault in faults + again:
        layout = layout_of(fault)
        assert WORKERS.check(layout) == [] and victims_of(fault, layout)
    assert {drawn(chance, links=True, only_links=True).victim for _ in range(100)} == set(LINKS)
    assert {drawn(chance, links=False).victim for _ in range(100)} == VICTIMS


@pytest.mark.parametrize(
    ("victim", "more", "goes_on"),
    [
        *((name, {}, True) for name in (CUT, *SLOW)),
        (DOWN, {}, False),
        (DOWN, {"is_elastic": True}, True),
        ("actor", {}, False),
        ("actor", {"is_elastic": True}, True),
        ("actor", {"is_elastic": True, "is_stopped": True}, False),
        ("trainer", {"is_elastic": True}, False),
        ("policy worker", {"far": False, "restarts": 1}, True),
        ("policy worker", {"restarts": 1}, True),
        ("trainer", {"restarts": 1}, False),
    ],
)
def test_what_a_run_survives(victim, more, goes_on):
    assert fault_of(victim, **more).goes_on is goes_on


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (fault_of("proxies"), "the proxy of GMIs 3 and 4 (process 7) was killed by SIGKILL"),
        (fault_of("trainer"), "GMI 3 (process 7) was killed by SIGKILL"),
        (fault_of("trainer", is_stopped=True), "GMI 1 waits: GMI 3 lives but has not sent"),
        (fault_of(DOWN), "node b has been silent for 8 s"),
    ],
)
def test_the_error_names_the_victim(fault, said):
    assert re.search(expected(fault, layout_of(fault), 3), said)
    assert not re.search(expected(fault, layout_of(fault), 3), "GMI 2 (process 7) was killed by SIGTERM")


@pytest.mark.parametrize("victim", LINKS)
def test_links_are_cut_or_paused_once_actors_are_connected(victim, monkeypatch):
    done, connected = [], []
    monkeypatch.setattr(soak_workers, "is_connected", lambda gmi: bool(connected))
    tells = {name: lambda _, *words, name=name: done.append((name, *words)) for name in ("cut", "link", "pause")}
    hosts = type("Hosts", (), tells)()
    assert not strike(fault_of(victim), 3, hosts) and not done
    connected.append(3)
    assert strike(fault_of(victim), 3, hosts)
    deeds = {CUT: ("cut", "b", 5.0), DOWN: ("link", "b", "down")}
    assert done == [deeds.get(victim, ("pause", 2.0))]


@two_cores
@pytest.mark.timeout(600)
def test_a_run_goes_on_without_an_actor_and_is_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(soak_workers_faults, "HANG_S", 60.0)  # the machine may be busy: this test is of what is said
    fault = fault_of("actor", far=False, remote=False, is_elastic=True)
    assert soak_workers.one(fault, tmp_path, random.Random(1), None) == []


@two_cores
@pytest.mark.timeout(600)
def test_a_run_that_wrongly_goes_on_is_stopped_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr(soak_workers, "TOO_LONG_S", 0.5)
    monkeypatch.setattr(soak_workers, "strike", lambda *_: True)
    fault = fault_of("trainer", far=False, remote=False)
    (mistake,) = soak_workers.one(fault, tmp_path, random.Random(1), None)
    assert re.fullmatch(r"GMI 2: it went on to \d+", mistake)


def test_the_processes_of_a_slow_network_are_not_those_of_a_training():
    lines = ["gmi_drl.roles.main", "gmi_drl/benchmarks/cases/common/network_relay.py"]
    started = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", line]) for line in lines]
    try:
        found = [process.pid for process in soak_workers.processes()]
        assert started[0].pid in found and started[1].pid not in found
    finally:
        for process in started:
            process.kill()
            process.wait()
