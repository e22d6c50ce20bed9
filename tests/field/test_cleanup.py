"""Nothing that a program has started is left, however it ends."""

import os
import signal
import subprocess
import sys
import textwrap
from threading import Thread

import cleanup
import pytest
from scripts import BENCHMARKS, is_alive, put_fake_mps, wait_until

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


CLIENT = """
import os, signal, sys, time

def leave(number, frame):
    time.sleep(0.5)
    with open("{told}", "w") as file:
        file.write("left alone" if os.path.exists("{pipes}/quit") else "served")
    sys.exit(0)

signal.signal(signal.SIGTERM, leave)
print("up", flush=True)
time.sleep(600)
"""


def start(folder, code="import time; print('up', flush=True); time.sleep(600)"):
    """A process in a session of its own that is marked with a folder."""
    own = os.environ | {cleanup.MARK: str(folder)}
    process = subprocess.Popen([sys.executable, "-c", code], env=own, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout.readline() == b"up\n"
    return process


@pytest.mark.parametrize("code", ["import time; print('up', flush=True); time.sleep(600)", STUBBORN])
def test_what_is_marked_ends_with_the_block(code):
    with cleanup.kept() as folder:
        inside = start(folder, code)
    assert not is_alive(inside.pid)
    assert not folder.exists()
    inside.wait()


def test_what_is_marked_otherwise_lives_on():
    with cleanup.kept() as outer:
        with cleanup.kept() as inner:
            inside, outside = start(inner), start(outer)
        assert not is_alive(inside.pid) and is_alive(outside.pid)
    assert not is_alive(outside.pid)
    inside.wait(), outside.wait()


@pytest.mark.parametrize("quits", [True, False])
def test_a_daemon_ends_with_the_program_that_was_killed(tmp_path, quits):
    put_fake_mps(tmp_path, quits=quits)
    program = f"""
        import os, subprocess, sys, time
        sys.path.append({str(BENCHMARKS / "gpu_day")!r})
        from cleanup import MARK, kept
        with kept() as folder:
            os.environ[MARK] = str(folder)
            from gpu_question_helpers import mps
            with mps() as found:
                print(found["CUDA_MPS_PIPE_DIRECTORY"], flush=True)
                time.sleep(600)
    """
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    victim = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], env=environment, stdout=subprocess.PIPE)
    pipes = victim.stdout.readline().decode().strip()
    assert wait_until(lambda: os.path.exists(f"{pipes}/pid"))
    with open(f"{pipes}/pid") as file:
        daemon = int(file.read())
    assert is_alive(daemon)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert wait_until(lambda: not is_alive(daemon))
    assert wait_until(lambda: not os.path.exists(os.path.dirname(pipes)))


def test_clients_end_before_the_daemon_that_serves_them(tmp_path, monkeypatch):
    put_fake_mps(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with cleanup.kept() as folder:
        pipes = folder / "mps-1"
        pipes.mkdir()
        found = {cleanup.MARK: str(folder), "CUDA_MPS_PIPE_DIRECTORY": str(pipes)}
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=os.environ | found, check=True)
        assert wait_until(lambda: (pipes / "pid").exists() and (pipes / "pid").read_text())
        daemon = int((pipes / "pid").read_text())
        client = start(folder, CLIENT.format(pipes=pipes, told=tmp_path / "told"))
    assert (tmp_path / "told").read_text() == "served"
    assert not is_alive(daemon)
    client.wait()


def test_the_watchdog_of_a_run_is_waited_for(tmp_path, monkeypatch):
    kept = tmp_path / "gmi_drl.gmi.launcher_watchdog"
    kept.write_text(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('up', flush=True)\n"
        "while os.getppid() == int(sys.argv[1]): time.sleep(0.02)\n"
        "time.sleep(1)\n"
        f"open({str(tmp_path / 'undone')!r}, 'w').close()\n"
    )
    (tmp_path / "launcher.py").write_text(
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"subprocess.Popen([sys.executable, {str(kept)!r}, str(os.getpid())])\n"
        "time.sleep(600)\n"
    )
    monkeypatch.setattr(cleanup, "GRACE_S", 0.2)
    folder = tmp_path / "folder"
    launcher = start(folder, f"exec(open({str(tmp_path / 'launcher.py')!r}).read())")
    Thread(target=launcher.wait).start()  # else it stays, as a process that nobody has asked for its end
    cleanup.sweep(folder)
    assert (tmp_path / "undone").exists() and not is_alive(launcher.pid)
