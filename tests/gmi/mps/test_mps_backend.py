import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from conftest import environment

from gmi_drl.errors import GmiWarning, LayoutMismatchError, MachineError
from gmi_drl.gmi import this_node
from gmi_drl.gmi.claims import claim
from gmi_drl.gmi.launcher_watchdog import Watchdog
from gmi_drl.gmi.mps import shutdown
from gmi_drl.gmi.mps.backend import MpsBackend
from gmi_drl.gmi.mps.control import Control
from gmi_drl.gmi.mps.folder import new_name
from gmi_drl.gmi.mps.shutdown import Patience
from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.processes.signals import DRAIN
from tests.gmi.nvml.fake import FakeGpu

HERE = str(Path(__file__).parent)
CLIENT = f"{HERE}/mps_client.py"


def layout(*gmis, index=0, kind="gpu"):
    parts = tuple(GMI(id=i, num_env=1, cores=(0,), **limits) for i, limits in enumerate(gmis or [{}]))
    return Layout(backend="mps", share_cores=True, devices=(Device(kind=kind, index=index, gmis=parts),))


@contextmanager
def client(instances, gmi_id=0, kind="drains"):
    """A GMI that is on its device, and works there."""
    with started(instances, [CLIENT, kind], gmi_id) as process:
        process.stdout.readline()
        yield process


def late_client(instances, kind):
    """A GMI that becomes a client, and works, when its stdin is closed."""
    program = f"import sys; sys.stdin.read(); sys.path.insert(0, {HERE!r}); from mps_client import main; main({kind!r})"
    return started(instances, ["-c", program], stdin=subprocess.PIPE)


@contextmanager
def started(instances, arguments, gmi_id=0, **streams):
    """A process of Python with the environment of a GMI, in a group of its own, until the `with` block ends."""
    command, environment = [sys.executable, *arguments], os.environ | instances.environment(gmi_id)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, process_group=0, **streams
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def held(backend, one):
    """Its devices claimed, and what it keeps for them."""
    with claim(backend.devices(one), "a test"), backend.held([one]):
        yield


@pytest.fixture
def backend(fake_mps):
    found = MpsBackend()
    long = 60.0  # each answer is a program's start
    found.patience = Patience(drain_s=long, take_s=long, late_s=long, quit_s=long, leave_s=long)
    return found


@pytest.fixture
def impatient(backend):
    """For what never comes."""
    backend.patience = Patience(take_s=2.0, quit_s=1.0, leave_s=1.0, term_s=0.5)
    return backend


def test_a_machine_that_has_mps_can_open_a_layout(backend):
    assert backend.check(this_node(), layout({}, {})) == []


def test_what_the_machine_lacks_is_told_with_a_remedy(backend, fake_nvml, monkeypatch):
    def reasons(one):
        return " ".join(backend.check(this_node(), one))

    assert "has none: take `--backend process`" in reasons(layout(kind="cpu"))
    assert "MPS serves 48 at most" in reasons(layout(*[{}] * 49))
    fake_nvml.add(FakeGpu(mig=()), FakeGpu(), FakeGpu())
    fake_nvml.write("gpus/2/architecture", "6.0")
    fake_nvml.write("gpus/3/compute_mode", 2)
    assert "in MIG mode: take `--backend mig`, or let MPS share its MIG devices" in reasons(layout(index=1))
    assert "too old for MPS (sm_60" in reasons(layout(index=2))
    assert "nvidia-smi -i 3 -c DEFAULT" in reasons(layout(index=3))
    fake_nvml.write("gpus/3/compute_mode", 3)
    assert reasons(layout({}, {}, index=3)) == "", "MPS's server is the one process that a GPU for one process has"
    monkeypatch.setenv("PATH", "/nowhere")
    assert "nvidia-compute-utils" in reasons(layout())


def test_the_life_of_daemon_and_clients_and_that_caps_are_those_of_the_layout(backend, fake_mps, fake_nvml):
    two = layout({"share": 0.29, "memory_limit_bytes": 4 * 2**30}, {})
    with held(backend, two), backend.cut(two) as instances:
        own = instances.environment(0)
        assert own["CUDA_VISIBLE_DEVICES"] == fake_nvml.uuid(0) and own["GMI_DRL_CPUS"]
        with client(instances, 0) as first, client(instances, 1) as second:
            assert f"client {first.pid} 29 0=4096M" in fake_mps.log()
            assert f"client {second.pid} none none" in fake_mps.log(), "it names no share"
            instances.prove_on_device(0, first.pid)
            instances.prove_on_device(1, second.pid)
            for process in (first, second):
                process.send_signal(DRAIN)
                assert process.wait(60) == 128 + DRAIN, "it has drained"
    assert fake_mps.left() == []
    daemon, *told = fake_mps.log()
    assert daemon.endswith(f"for {fake_nvml.uuid(0)}") and told[-1] == "daemon quit"
    assert not [line for line in told if "harmed" in line or "terminated" in line]


def test_mig_devices_that_are_named_have_a_daemon_each(backend, fake_mps, fake_nvml, monkeypatch):
    fake_nvml.add(FakeGpu(mig=("3g.71gb", "2g.35gb")))
    uuids = fake_nvml.mig_uuids(1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(uuids))
    gmis = [GMI(id=i, num_env=1, cores=(0,)) for i in range(3)]
    devices = (Device(kind="gpu", index=0, gmis=tuple(gmis[:2])), Device(kind="gpu", index=1, gmis=(gmis[2],)))
    one = Layout(backend="mps", share_cores=True, devices=devices)
    assert backend.check(this_node(), one) == []
    with held(backend, one), backend.cut(one) as instances:
        own = [instances.environment(i) for i in range(3)]
        assert [mine["CUDA_VISIBLE_DEVICES"] for mine in own] == [uuids[0], uuids[0], uuids[1]]
        pipes = [mine["CUDA_MPS_PIPE_DIRECTORY"] for mine in own]
        assert pipes[0] == pipes[1] != pipes[2]
        with client(instances, 0) as first, client(instances, 2) as third:
            instances.prove_on_device(0, first.pid)
            instances.prove_on_device(2, third.pid)
    assert [line.split()[-1] for line in fake_mps.log() if line.startswith("daemon") and " for " in line] == uuids
    assert fake_mps.left() == []


def test_a_mig_device_has_clients_by_its_size(backend, fake_mps, fake_nvml, monkeypatch):
    fake_nvml.add(FakeGpu(mig=("1g.18gb",)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", fake_nvml.mig_uuids(1)[0])
    assert backend.check(this_node(), layout(*[{}] * 6)) == []
    (reason,) = backend.check(this_node(), layout(*[{}] * 7))
    assert "MIG 1g.18gb) is cut into 7 GMIs, and MPS serves 6 at most" in reason


def test_a_process_that_cuda_runs_without_mps_is_told_apart(backend, fake_mps):
    fake_mps.habit("attaches_nobody")
    one = layout()
    with (
        held(backend, one),
        backend.cut(one) as instances,
        client(instances) as process,
        pytest.raises(LayoutMismatchError, match=rf"GMI 0 .process {process.pid}. computes .* without MPS.*nobody"),
    ):
        instances.prove_on_device(0, process.pid)
    assert fake_mps.left() == []


def test_what_does_not_drain_is_terminated_before_it_is_killed(backend, fake_mps):
    one = layout()
    with held(backend, one), backend.cut(one) as instances, client(instances, kind="deaf") as process:
        instances.release({0: process.pid})
        assert fake_mps.log()[-2:] == [f"terminated {process.pid}", f"gone {process.pid}"]
        process.kill()
    assert fake_mps.left() == []


@pytest.mark.parametrize("kind", ["deaf", "forks"])
def test_what_becomes_a_client_just_before_it_is_killed_has_nothing_in_flight(backend, fake_mps, monkeypatch, kind):
    one, look, late = layout(), Control.clients, []
    with held(backend, one), backend.cut(one) as instances, late_client(instances, kind) as process:

        def look_too_early(control, deadline_s):
            found = look(control, deadline_s)
            if not process.stdin.closed:
                process.stdin.close()
                late.append(int(process.stdout.readline()))
            return found

        monkeypatch.setattr(Control, "clients", look_too_early)
        instances.release({0: process.pid})
        assert psutil.Process(*late).status() == psutil.STATUS_STOPPED
        assert fake_mps.log()[-2:] == [f"terminated {late[0]}", f"gone {late[0]}"]


def test_a_daemon_that_does_not_answer_is_asked_once(impatient, fake_mps):
    fake_mps.habit("hangs_at_terminate_client")
    two = layout({}, {})
    with (
        held(impatient, two),
        impatient.cut(two) as instances,
        client(instances, 0, "deaf") as first,
        client(instances, 1, "deaf") as second,
    ):
        instances.release({0: first.pid, 1: second.pid})
        assert first.poll() is second.poll() is None
    assert fake_mps.left() == []


def test_children_of_gmis_are_clients_too(backend, fake_mps):
    one = layout()
    with held(backend, one), backend.cut(one) as instances, client(instances, kind="forks") as process:
        instances.release({0: process.pid})
        (terminated,) = [line for line in fake_mps.log() if "terminated" in line]
        assert terminated != f"terminated {process.pid}"


def test_clients_that_are_left_end_with_the_daemon(backend, fake_mps):
    one = layout()
    with held(backend, one), backend.cut(one) as instances:
        environment = {**os.environ, **instances.environment(0)}
        processes = [
            subprocess.Popen([sys.executable, CLIENT, kind], env=environment, stdout=subprocess.PIPE, text=True)
            for kind in ("drains", "deaf")
        ]
        for process in processes:
            process.stdout.readline()
    assert [process.wait(60) for process in processes] == [128 + DRAIN, -9]
    for process in processes:
        process.stdout.close()
    assert fake_mps.left() == [] and not [line for line in fake_mps.log() if "harmed" in line]


def test_a_daemon_that_does_not_quit_is_ended_by_its_pid(impatient, fake_mps):
    fake_mps.habit("hangs_at_quit")
    fake_mps.habit("ignores_sigterm")
    one = layout()
    with held(impatient, one), impatient.cut(one) as instances, client(instances):
        pass
    assert fake_mps.left() == [] and "daemon quit" not in fake_mps.log()


def test_a_daemon_that_refuses_to_start_is_quoted(backend, fake_mps):
    fake_mps.habit("refuses_start", "no GPU for you")
    with pytest.raises(MachineError, match=r"exited with 1: no GPU for you"), held(backend, layout()):
        pass
    assert fake_mps.left() == []


def test_nothing_is_started_without_a_watchdog(backend, fake_mps, monkeypatch):
    monkeypatch.setattr("gmi_drl.gmi.launcher_watchdog.PROGRAM", "raise SystemExit")
    with pytest.raises(MachineError, match="has ended or does not answer"), held(backend, layout()):
        pass
    assert fake_mps.log() == [] and fake_mps.left() == []


def test_a_watchdog_that_cannot_be_started_leaves_nothing(backend, fake_mps, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with (
        pytest.raises(
            MachineError, match=r"/nowhere/python cannot be started as a watchdog \(.*No such file.*: install"
        ),
        held(backend, layout()),
    ):
        pass
    assert fake_mps.log() == [] and fake_mps.left() == []


def test_what_cannot_be_undone_after_a_failure_is_told_besides_it(backend, fake_mps, monkeypatch):
    real = Watchdog.close
    monkeypatch.setattr(Watchdog, "close", lambda dog: [*real(dog), "a thing: remove it"])
    with (
        pytest.warns(GmiWarning, match="a thing: remove it"),
        pytest.raises(KeyboardInterrupt),
        held(backend, layout()),
    ):
        raise KeyboardInterrupt


def test_a_launcher_that_is_killed_before_anything_is_made_leaves_nothing(fake_mps):
    folder = new_name()
    started = f"Watchdog({shutdown.UNDO!r}, watchdog_log(folder), undo_s=60, notes={{'folder': str(folder)}})"
    program = f"folder = Path({str(folder)!r}); print({started}.pid, flush=True); os.kill(os.getpid(), 9)"
    imports = "import os; from pathlib import Path; from gmi_drl.gmi.launcher_watchdog import Watchdog; "
    imports += "from gmi_drl.gmi.mps.folder import watchdog_log; "
    ended = subprocess.run([sys.executable, "-c", imports + program], env=environment(), capture_output=True, text=True)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(ended.stdout)).wait(60)
    assert fake_mps.left() == []


def test_a_client_that_is_not_let_in_yet_tries_again(backend, fake_mps):
    one = layout()
    with held(backend, one), backend.cut(one) as instances:
        fake_mps.habit("not_ready", 5)
        with client(instances) as process:
            instances.prove_on_device(0, process.pid)


def test_what_a_user_has_set_of_mps_is_for_other_daemons(backend, fake_mps, monkeypatch):
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10")
    with held(backend, layout()):
        (daemon,) = [process for process in fake_mps.processes() if "mps-control" in str(process.cmdline())]
        assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in daemon.environ()


def test_a_daemon_that_knows_no_patience_quits_too(backend, fake_mps):
    fake_mps.habit("knows_no_t")
    with held(backend, layout()):
        pass
    assert fake_mps.log()[-1] == "daemon quit"
