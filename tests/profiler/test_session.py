import os
import tempfile
from pathlib import Path

import pytest
from conftest import children_of, started, tiny_config, tiny_layout, two_cores

from gmi_drl.errors import GmiError, PeerSilentError
from gmi_drl.gmi.inventory import VisibleGpu
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.profiler import session as session_module
from gmi_drl.profiler.session import Session, share_of_each
from gmi_drl.run.phases import PHASE_NAMES

BROKEN = f"{Path(__file__).parent}/probes.py:Broken"
WEIGHED = f"{Path(__file__).parent}/probes.py:Weighed"


@two_cores
def test_all_gmis_are_measured_together_as_often_as_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with started(Session(tiny_layout(), tiny_config())) as session:
        few, many = session.measure(8, 0.1), session.measure(32, 0.0)
        assert len(children_of(os.getpid())) == 4  # the GMIs, their reaper, and that of their folder
    assert few.num_env == 8 and few.iterations >= 1 and many.iterations == 1
    assert few.steps_per_second == pytest.approx(2 * 8 * 4 / few.iteration_s)
    assert set(few.phases) == set(PHASE_NAMES) and few.phases["sim_s"] > 0 and few.phases["sync_s"] > 0
    assert 0 < sum(few.phases.values()) <= few.iteration_s
    assert 50e6 < few.memory_bytes <= few.host_bytes + 10e6 and many.memory_bytes < 4e9
    assert not children_of(os.getpid()) and not list(tmp_path.iterdir())


@two_cores
def test_gmis_of_unlike_size_are_measured_and_weighed_as_the_layout_has_them(tmp_path):
    gmis = tuple(GMI(id=i, num_env=num_env, cores=(i,)) for i, num_env in enumerate((8, 24)))
    devices, groups = (Device(kind="cpu", gmis=gmis),), {"trainers": GmiGroup(members=(0, 1), reduction="MPR-shm")}
    layout = Layout(task="ant", template="TCG_EX", devices=devices, groups=groups)
    closed = tmp_path / "closed"
    with started(Session(layout, tiny_config(), role=WEIGHED, environment={"CLOSED": str(closed)})) as session:
        own, alike = session.measure(None, 0.0), session.measure(4, 0.0)
    assert own.num_env == 24 and own.steps_per_second == pytest.approx((8 + 24) * 4 / own.iteration_s)
    assert sorted(row["sample_share"] for row in own.rows) == [0.25, 0.75]
    assert [row["sample_share"] for row in alike.rows] == [0.5, 0.5]
    assert sorted(map(int, closed.read_text().split())) == [1, 1, 4, 4, 8, 24], (
        "those of the start, and of the end, too"
    )
    assert own.rows[0]["digest"] == own.rows[1]["digest"] != alike.rows[0]["digest"] == alike.rows[1]["digest"]


def test_the_memory_of_a_gpu_is_shared_by_its_gmis():
    layout = tiny_layout()
    gpu = layout.devices[0].model_copy(update={"kind": "gpu", "index": 1})
    assert share_of_each(layout.model_copy(update={"devices": (gpu,)}), [7, 3_000]) == 1_500
    assert share_of_each(layout, []) == 0


@two_cores
def test_memory_of_gpus_counts_what_came_while_a_session_was_at_work(monkeypatch):
    used = iter([100, 100, 400, 900, 2_900])  # once for the length, then before and after the start and a measurement
    monkeypatch.setattr(session_module, "visible_gpus", lambda: [VisibleGpu("A", "0", 80.0, next(used), "600.1")])
    with started(Session(tiny_layout(), tiny_config())) as session:
        session.measure(8, 0.0)
        assert session._taken == [2_300]


@two_cores
def test_memory_that_earlier_worlds_gave_back_does_not_count_for_later_ones(monkeypatch):
    used = iter([0, 100, 400, 400, 9_400, 9_400, 2_400])  # a large point, then a small one
    monkeypatch.setattr(session_module, "visible_gpus", lambda: [VisibleGpu("A", "0", 80.0, next(used), "600.1")])
    with started(Session(tiny_layout(), tiny_config())) as session:
        session.measure(8, 0.0)
        session.measure(4, 0.0)
        assert session._taken == [2_300]


@two_cores
def test_other_programs_are_looked_for_on_the_cpus_of_the_gmis(monkeypatch):
    """Core 0 of a layout is the first CPU that this process may use, whatever its number."""
    looked, load, all_cpus = [], session_module.CoreLoad, os.sched_getaffinity(0)
    monkeypatch.setattr(session_module, "CoreLoad", lambda cpus: looked.append(set(cpus)) or load(cpus))
    os.sched_setaffinity(0, {max(all_cpus)})
    try:
        with started(Session(tiny_layout(gmis=1), tiny_config())) as session:
            session.measure(4, 0.0)
    finally:
        os.sched_setaffinity(0, all_cpus)
    assert looked == [{max(all_cpus)}]


@pytest.mark.parametrize(("num_env", "message"), [(16, "no room for 16"), (32, "exited with code 9")])
def test_a_gmi_that_fails_is_an_error(num_env, message):
    with (
        started(Session(tiny_layout(gmis=1), tiny_config(), role=BROKEN)) as session,
        pytest.raises(GmiError, match=message),
    ):
        session.measure(num_env, 0.0)
    assert not children_of(os.getpid())


def test_the_log_of_a_gmi_that_fails_is_told_as_it_does_not_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with (
        started(Session(tiny_layout(gmis=1), tiny_config(), role=BROKEN)) as session,
        pytest.raises(GmiError, match=r"a bug in my simulator\n  its log ends with\n  \| .*") as failed,
    ):
        session.measure(256, 0.0)
    told = str(failed.value)
    assert told.endswith('raise ValueError("a bug in my simulator")') and str(tmp_path) not in told
    assert not list(tmp_path.iterdir())


def test_a_gmi_that_hangs_is_given_up():
    with started(Session(tiny_layout(gmis=1), tiny_config(), role=BROKEN)) as session:
        assert session.measure(4, 0.0).num_env == 4
        with pytest.raises(PeerSilentError, match="GMI 0 has not answered within 1 s"):
            session.measure(64, 0.0, deadline_s=1.0)
    assert not children_of(os.getpid())


@pytest.mark.starts_gmis  # the command line and environment of a GMI are read in /proc
def test_variables_of_the_gmis_can_be_given_and_taken_away(monkeypatch):
    monkeypatch.setenv("TAKEN", "1")
    environment = {"GIVEN": "2", "TAKEN": None, "OMP_NUM_THREADS": "7"}
    with started(Session(tiny_layout(gmis=1), tiny_config(), environment=environment)):
        (gmi,) = [child for child in children_of(os.getpid()) if "gmi_drl.roles.main" in child.cmdline()]
        has = gmi.environ()
    assert has["GIVEN"] == "2" and "TAKEN" not in has
    assert has["OMP_NUM_THREADS"] == "7" and has["MKL_NUM_THREADS"] == "1"
