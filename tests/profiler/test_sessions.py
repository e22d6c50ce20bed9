import os
from pathlib import Path

import psutil
import pytest
from conftest import children_of, tiny_config, tiny_layout, two_cores
from toys import install_backend

from gmi_drl.errors import GmiError, LayoutMismatchError
from gmi_drl.gmi import claimed
from gmi_drl.gmi.inventory import this_node
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler import confirm
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.session import Session
from gmi_drl.profiler.sessions import Sessions
from gmi_drl.templates import TCG_EX
from gmi_drl.workload import TASK_SPECS
from tests.gmi.nvml.fake import FakeGpu

PROBES = f"{Path(__file__).parent}/probes.py"
BROKEN, STILLBORN = f"{PROBES}:Broken", f"{PROBES}:Stillborn"


@pytest.fixture
def by_toy(monkeypatch):
    """Candidates are cut by the backend "toy"."""
    monkeypatch.setattr(confirm, "MEASURE_S", 0.05)
    monkeypatch.setattr(confirm, "MOST_ROUNDS", 2)

    lay_out = TCG_EX.lay_out
    by = {"backend": "toy"}
    monkeypatch.setattr(TCG_EX, "lay_out", lambda *args, **more: lay_out(*args, **more).model_copy(update=by))


@two_cores
@pytest.mark.parametrize(("coexists", "count"), [(True, 2), (False, 3)])
def test_candidates_whose_cuts_cannot_coexist_are_cut_one_after_the_other(install, by_toy, coexists, count):
    """Three cuts in two rounds, the second in the opposite order: the layout that ends the first begins it."""
    toy = install_backend(install, coexists)
    cuts = [Cut(1, 8), Cut(2, 4)]
    confirmed = confirm.confirm(TASK_SPECS["ant"], tiny_config(), this_node(), cuts, Budget(600))
    assert [(one.point.gmis_per_gpu, one.point.runnable) for one in confirmed] == [(1, True), (2, True)]
    assert (toy.cuts, toy.most, toy.alive) == (count, 2 if coexists else 1, 0)
    assert len(toy.daemons) == 1 and not children_of(os.getpid())


@two_cores
@pytest.mark.parametrize("coexists", [True, False])
def test_sessions_share_what_their_backend_keeps_until_one_fails(install, coexists):
    toy = install_backend(install, coexists)
    layouts = {gmis: tiny_layout(gmis, backend="toy") for gmis in (1, 2)}
    sessions = Sessions({gmis: Session(layout, tiny_config(), role=BROKEN) for gmis, layout in layouts.items()}, "it")
    with pytest.raises(GmiError, match="no room for 16"), sessions:
        assert [sessions[gmis].measure(4, 0.0).num_env for gmis in (1, 2)] == [4, 4]  # each GMI has shown its daemon
        (daemon,) = map(psutil.Process, toy.daemons)
        assert daemon.is_running()
        sessions[2].measure(16, 0.0)
    assert not daemon.is_running() and toy.alive == 0 and not children_of(os.getpid())


@two_cores
@pytest.mark.parametrize("coexists", [True, False])
def test_candidates_that_are_refused_or_do_not_start_are_not_runnable(install, by_toy, monkeypatch, coexists):
    toy = install_backend(install, coexists)
    monkeypatch.setattr(toy, "check", lambda self, node, layout: ["no two"] if len(layout.gmis) == 2 else [])
    monkeypatch.setattr(
        confirm,
        "Session",
        lambda layout, config: Session(layout, config, role=STILLBORN if layout.num_env == 16 else BROKEN),
    )
    cuts = [Cut(1, 16), Cut(2, 4), Cut(1, 8)]
    confirmed = confirm.confirm(TASK_SPECS["ant"], tiny_config(), this_node(), cuts, Budget(600))
    reasons = {(one.point.gmis_per_gpu, one.point.num_env): one.point.reason for one in confirmed}
    assert reasons[1, 8] == "" and reasons[2, 4] == "no two" and "exited with code 7" in reasons[1, 16]
    assert toy.alive == 0 and not children_of(os.getpid())


@two_cores
def test_a_budget_pays_for_starts_but_not_for_what_the_first_compiles():
    budget = Budget(600)
    mine = {gmis: Session(tiny_layout(gmis), tiny_config()) for gmis in (1, 2)}
    with Sessions(mine, "a test", budget):
        assert min(session.compiled_s for session in mine.values()) > 0
        assert budget._first.compiled_s == mine[1].compiled_s


def test_a_session_that_was_closed_is_started_again():
    with Sessions({"one": Session(tiny_layout(1), tiny_config())}, "a test") as sessions:
        first = sessions["one"].measure(4, 0.0)
        sessions.close("one")
        assert not children_of(os.getpid())
        assert sessions["one"].measure(4, 0.0).num_env == first.num_env


def test_devices_in_use_are_refused_before_anything_starts():
    sessions = Sessions({"one": Session(tiny_layout(1), tiny_config())}, "a test")
    with (
        claimed([tiny_layout(1)], "another run"),
        pytest.raises(LayoutMismatchError, match=r"in use by .*another run"),
        sessions,
    ):
        pass
    assert not children_of(os.getpid())


@pytest.mark.parametrize(("compute_mode", "most"), [(0, 2), (3, 1)])
def test_plain_processes_follow_one_another_where_a_gpu_takes_one_at_a_time(fake_nvml, compute_mode, most):
    """Compute mode 3 is exclusive process."""
    fake_nvml.add(FakeGpu())
    fake_nvml.write("gpus/0/compute_mode", compute_mode)
    on_cores = tiny_layout(1)
    layout = on_cores.model_copy(update={"devices": (on_cores.devices[0].model_copy(update={"kind": "gpu"}),)})
    alive, counts = set(), []

    class Fake:
        compiled_s = 0.0

        def __init__(self):
            self.layout = layout

        def start(self, claim):
            alive.add(self)
            counts.append(len(alive))

        def close(self):
            alive.discard(self)

    with Sessions({"one": Fake(), "other": Fake()}, "a test") as sessions:
        for name in ("one", "other", "one"):
            assert sessions[name] in alive
    assert max(counts) == most and not alive


def test_a_session_that_cannot_be_closed_keeps_no_other_alive(monkeypatch):
    """As when Ctrl-C comes while one ends."""
    ended = []

    class Fake:
        layout, compiled_s = tiny_layout(1), 0.0

        def start(self, claim):
            pass

        def close(self):
            ended.append(self)
            raise KeyboardInterrupt

    sessions = Sessions({"one": Fake(), "other": Fake()}, "a test")
    with pytest.raises(KeyboardInterrupt), sessions:
        pass
    assert len(ended) == 2
