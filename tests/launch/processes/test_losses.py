"""Actors without which a run goes on, as their launcher has it; processes are pairs of sockets here."""

from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
from conftest import tiny_config
from test_gmi_restarts import Launched, Pretended

from gmi_drl.errors import GmiDiedError, GmiError
from gmi_drl.launch.close_environments import Closing
from gmi_drl.launch.job import Job
from gmi_drl.launch.processes import gmi_processes as module
from gmi_drl.launch.processes.gmi_errors import GRACE_S
from gmi_drl.launch.processes.gmi_handle import LOST
from gmi_drl.launch.processes.gmi_processes import GMIProcesses
from gmi_drl.launch.processes.gmi_restarts import GMIRestarts, Losses, Restarts
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.roles.launcher.protocol import Acts, Attached, Closed, Done, Failed, Report
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.process_names import proxy_of


def with_actors(count, fewest):
    """A trainer, and inline actors of which a run needs `fewest`."""
    kinds = [("trainer",), *[("simulator", "agent")] * count]
    gmis = tuple(GMI(id=number, roles=kind, num_env=int(number > 0), cores=(0,)) for number, kind in enumerate(kinds))
    devices, streams = (Device(kind="cpu", gmis=gmis),), Streams(fewest_actors=fewest)
    return Layout(share_cores=True, devices=devices, channels=Channels(), streams=streams)


@pytest.fixture
def with_losses(tmp_path, monkeypatch):
    """Begins a run with a trainer and actors, of which one must be left; a trainer has reported."""
    monkeypatch.setattr(module, "TICK_S", 0.02)
    monkeypatch.setattr(module, "BLAME_S", 0.02)

    @contextmanager
    def begin(actors, restarts=0, fewest=1, fails=()):
        layout, started, told = with_actors(actors, fewest), {}, []
        folder, losses = RunFolder(tmp_path / "run"), Losses(layout, told.append)
        folder.create()
        instances = SimpleNamespace(
            drains=False, environment=lambda gmi: {}, release=lambda pids: None, prove_attached=lambda gmi, pid: None
        )

        def start(order, environment, log, resources):
            if fails and order["predecessors"]:
                raise fails.pop()
            started[order["gmi"]] = made = Pretended(order["gmi"], order)
            return made

        job, resources = Job(layout, tiny_config(), folder, {}, 64), dict.fromkeys(range(actors + 1), Resources())
        restarting = GMIRestarts(frozenset(range(1, actors + 1)), Restarts(restarts, told.append)) if restarts else None
        with GMIProcesses(job, {}, instances, start, resources, {}, restarting, losses) as processes:
            run = Launched(processes, started.values(), told)
            for gmi in started.values():
                gmi.tell(Attached())
            started[0].tell(Report({"a": 1}))
            assert run.heard() == [{"a": 1}]
            yield run, started, losses
            for gmi in started.values():
                with suppress(OSError):
                    gmi.tell(Closed(""))

    return begin


def test_an_actor_that_dies_when_the_trainer_is_done_does_not_end_the_run(with_losses):
    with with_losses(2) as (run, started, losses):
        started[0].tell(Done(result={}))
        assert run.heard() == []
        started[2].die()
        assert run.heard() == [] and losses.lost == {2}
        assert run.told[0].startswith("GMI 2") and run.told[0].endswith("going on with 1 actor")
        started[1].tell(Done(result={}))
        run.heard()
        assert run.processes.results.keys() == {0, 1}


@pytest.mark.parametrize("blames_peer", [False, True])
def test_an_actor_of_the_start_that_fails_is_dropped_as_one_that_came_later(with_losses, blames_peer):
    """It is not started again: it would fail again. The next one ends the run by its name."""
    with with_losses(2, restarts=3) as (run, started, losses):
        started[2].tell(Failed("ValueError: a fault", 1, blames_peer=blames_peer), Closed(""))
        assert run.heard() == [] and losses.facts == {"actors": 1} and started[2].is_ended
        assert run.told == ["GMI 2: ValueError: a fault: going on with 1 actor"]
        started[1].tell(Failed("ValueError: a fault", 1, blames_peer=blames_peer))
        with pytest.raises(GmiError, match=r"^GMI 1: ValueError: a fault"):
            run.heard()


def test_actors_that_blame_a_trainer_which_fails_are_not_dropped_and_it_is_named(with_losses):
    with with_losses(3) as (run, started, losses):
        started[2].tell(Failed("GMI 0 ended", 1, blames_peer=True))
        started[3].tell(Failed("GMI 0 ended", 1, blames_peer=True))
        started[0].tell(Failed("a fault", 1, blames_peer=False))
        with pytest.raises(GmiError, match=r"^GMI 0: a fault"):
            run.heard()
        assert losses.lost == set() and run.told == []


@pytest.mark.parametrize("fewest", [1, 2])
def test_who_blames_a_living_peer_is_named_before_those_whose_peer_ended_for_it(with_losses, fewest):
    """Messages of another host come late: the trainer saw the actor end before the launcher heard from that one."""
    with with_losses(2, fewest=fewest) as (run, started, losses):
        started[0].tell(Failed("all agents ended", 1, blames_peer=True, peer_ended=True))
        started[2].tell(Failed("GMI 3 lives but is silent", 1, blames_peer=True))
        with pytest.raises(GmiError, match=r"^GMI 2: GMI 3 lives but is silent"):
            run.heard()
        assert losses.lost == set() and run.told == []


def test_of_those_that_blame_living_peers_the_one_that_ends_the_run_is_named(with_losses):
    with with_losses(2) as (run, started, _):
        started[2].tell(Failed("GMI 0 lives but is silent", 1, blames_peer=True))
        started[0].tell(Failed("GMI 1 lives but is silent", 1, blames_peer=True))
        with pytest.raises(GmiError, match=r"^GMI 0: GMI 1 lives but is silent"):
            run.heard()


def test_a_run_goes_on_without_actors_that_die_until_too_few_are_left():
    layout, told = with_actors(3, fewest=2), []
    losses = Losses(layout, told.append)
    assert not losses.allow(0) and losses.allow(3) and losses.take(3, GmiError("GMI 3 died\nits log"))
    assert losses.allow(3) and not losses.allow(1) and not losses.take(1, GmiError("GMI 1 died"))
    assert told == ["GMI 3 died: going on with 2 actors"]


def test_actors_that_come_later_are_started_then_and_dropped_when_they_fail(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TICK_S", 0.02)
    layout = with_actors(2, fewest=1)
    folder, started, told, coming = RunFolder(tmp_path / "run"), {}, [], []
    folder.create()
    lost = [2]  # the first time its node is lost again before it starts

    def start(order, environment, log, resources):
        if order["gmi"] in lost:
            raise GmiError(f"GMI {lost.pop()} (node b) is lost")
        return started.setdefault(order["gmi"], Pretended(order["gmi"], order))

    instances = SimpleNamespace(
        drains=False, environment=lambda gmi: {}, release=lambda pids: None, prove_attached=lambda gmi, pid: None
    )
    late = SimpleNamespace(absent={2}, come=lambda: [coming.pop()] if coming else [])
    losses, job = Losses(layout, told.append), Job(layout, tiny_config(), folder, {}, 64)
    resources = dict.fromkeys(range(3), Resources())
    with GMIProcesses(job, {}, instances, start, resources, {}, None, losses, late) as processes:
        run = Launched(processes, started.values(), told)
        assert set(started) == {0, 1} and losses.lost == {2}
        started[0].tell(Attached(), Report({"a": 1}))
        started[1].tell(Attached())
        assert run.heard() == [{"a": 1}]
        coming.append(2)
        assert run.heard() == [] and set(started) == {0, 1} and losses.lost == {2}
        assert told.pop() == "GMI 2 (node b) is lost: going on with 1 actor"
        coming.append(2)
        assert run.heard() == [] and set(started) == {0, 1, 2} and losses.lost == {2}, "it cannot act yet"
        started[2].tell(Attached())
        assert run.heard() == [] and losses.facts == {"actors": 1}
        started[2].tell(Acts())
        assert run.heard() == [] and losses.facts == {"actors": 2}
        started[2].tell(Failed("the task is not installed", 4, blames_peer=False), Closed(""))
        assert run.heard() == [] and losses.lost == {2}
        assert told == ["GMI 2: the task is not installed: going on with 1 actor"]
        assert started[2].is_ended


def test_an_actor_is_dropped_when_no_restart_is_left(with_losses):
    with with_losses(2, restarts=1) as (run, started, losses):
        for predecessors in range(2):
            assert started[2].order["predecessors"] == predecessors and losses.lost == set()
            started[2].tell(Attached()).die()
            assert run.heard() == []
        assert losses.lost == {2} and 2 not in run.processes._children
        assert [line.rpartition(": ")[2] for line in run.told] == [
            "started again alone, 0 restarts left",
            "going on with 1 actor",
        ]


def test_an_actor_that_is_lost_with_its_node_is_not_started_again(with_losses):
    with with_losses(2, restarts=3) as (run, started, losses):
        started[2].die(LOST)
        assert run.heard() == [] and losses.lost == {2} and not started[2].order["predecessors"]
        assert run.told[0].endswith("was lost with its node: going on with 1 actor") and len(run.told) == 1
        started[1].die(LOST)
        with pytest.raises(GmiDiedError, match=r"^GMI 1 .* was lost with its node"):
            run.heard()


@pytest.mark.parametrize(
    ("failure", "code"),
    [(GmiError("node b: no memory"), -9), (GmiDiedError("GMI 1 (node b: silent) was lost", 1, LOST), LOST)],
    ids=["refused", "node lost"],
)
def test_an_actor_that_cannot_be_started_again_is_dropped_or_ends_the_run(with_losses, failure, code):
    with with_losses(2, restarts=3, fails=[failure, failure]) as (run, started, losses):
        started[2].die()
        assert run.heard() == [] and losses.lost == {2}
        assert [line.rpartition(": ")[2] for line in run.told] == [
            "started again alone, 2 restarts left",
            "going on with 1 actor",
        ]
        started[1].die()
        with pytest.raises(GmiDiedError, match=r"^GMI 1 ") as caught:
            run.heard()
        assert caught.value.exit_code_of_gmi == code


def test_actors_that_fail_together_have_one_time_to_close_their_environments(with_losses, monkeypatch):
    waits = []
    with with_losses(4) as (run, started, losses):
        monkeypatch.setattr(Closing, "wait", lambda self, closing, most_s=None: waits.append((list(closing), most_s)))
        for number in (2, 3, 4):
            started[number].tell(Failed("a fault", 1, blames_peer=False))
        assert run.heard() == [] and losses.lost == {2, 3, 4}
        assert waits == [([2, 3, 4], GRACE_S)] and all(started[number].is_ended for number in (2, 3, 4))


@contextmanager
def over_nodes(path, late=None, restarts=0):
    """A trainer and actor 1 on node a, actors 2 and 3 on node b, one of which is needed; the trainer has reported."""
    kinds = ("trainer",), *[("simulator", "agent")] * 3
    gmis = [GMI(id=number, roles=kind, num_env=int(number > 0), cores=(0,)) for number, kind in enumerate(kinds)]
    devices = Device(kind="cpu", node="a", gmis=tuple(gmis[:2])), Device(kind="cpu", node="b", gmis=tuple(gmis[2:]))
    layout = Layout(share_cores=True, devices=devices, channels=Channels(), streams=Streams(fewest_actors=1))
    folder, started, told = RunFolder(path), {}, []
    folder.create()
    instances = SimpleNamespace(
        drains=False, environment=lambda gmi: {}, release=lambda pids: None, prove_attached=lambda gmi, pid: None
    )
    losses, job = Losses(layout, told.append), Job(layout, tiny_config(), folder, {}, 64)
    restarting = GMIRestarts(frozenset({1, 2, 3}), Restarts(restarts, told.append)) if restarts else None
    resources = dict.fromkeys((*range(4), proxy_of(2)), Resources())

    def start(order, environment, log, resources):
        return started.setdefault(order["gmi"], Pretended(order["gmi"], order))

    with GMIProcesses(job, {}, instances, start, resources, {}, restarting, losses, late) as processes:
        run = Launched(processes, started.values(), told)
        for one in started.values():
            one.tell(Attached())
        started[0].tell(Report({"a": 1}))
        assert run.heard() == [{"a": 1}]
        yield run, started, losses


def test_proxies_stay_for_an_actor_of_their_node_that_does_not_act_yet(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TICK_S", 0.02)
    coming, proxies = [2, 3], proxy_of(2)
    late = SimpleNamespace(absent={2, 3}, come=lambda: [coming.pop(0) for _ in coming[:]])
    with over_nodes(tmp_path / "run", late) as (run, started, losses):
        assert run.heard() == [] and {2, 3} <= set(started)
        for number in (2, 3):
            started[number].tell(Attached())
        assert run.heard() == [] and losses.lost == {2, 3}
        started[3].die()
        assert run.heard() == [] and not started[proxies].is_ended and not started[2].is_ended
        started[2].die()
        assert run.heard() == [] and started[proxies].is_ended


def test_of_an_actor_and_its_proxy_that_blame_the_same_trainer_the_actor_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TICK_S", 0.02)
    monkeypatch.setattr(module, "BLAME_S", 0.02)
    with over_nodes(tmp_path / "run") as (run, started, _):
        for number in (0, proxy_of(2), 2):
            text = "all agents ended" if number == 0 else "GMI 5 lives but is silent"
            started[number].tell(Failed(text, 1, blames_peer=True, peer_ended=number == 0))
        with pytest.raises(GmiError, match=r"^GMI 2: GMI 5 lives but is silent"):
            run.heard()


@pytest.mark.parametrize("dies_too", [False, True])
def test_a_process_of_proxies_that_dies_takes_its_actors_along_and_none_is_started_again(
    tmp_path, monkeypatch, dies_too
):
    monkeypatch.setattr(module, "TICK_S", 0.02)
    with over_nodes(tmp_path / "run", restarts=3) as (run, started, losses):
        if dies_too:
            started[3].die()
        started[proxy_of(2)].die()
        assert run.heard() == [] and losses.lost == {2, 3}
        assert all(started[number].is_ended for number in (2, 3, proxy_of(2))) and not started[1].is_ended
        assert all(line.startswith("the proxy of GMIs 2, 3 ") for line in run.told)
        assert run.told[1].endswith("going on with 1 actor") and len(run.told) == 2
