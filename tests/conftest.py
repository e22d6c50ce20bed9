"""Fixtures of all tests: own claims, one thread, tiny runs."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest
import torch

from gmi_drl.cli import main
from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.gmi import allowed_cores, claimed
from gmi_drl.hardware.speeds import OF_CORES
from gmi_drl.launch.job import Job
from gmi_drl.launch.open_layout import opened
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.run import checkpoint
from gmi_drl.run.folder import RunFolder
from gmi_drl.scheduler.profile import DISTURBED_VARIABLE
from gmi_drl.workload import TASK_SPECS

torch.set_num_threads(1)
# A forked child has none of the threads of Ray and torch, whose objects it must not collect.
os.register_at_fork(before=gc.disable, after_in_parent=gc.enable)
if find_spec("hypothesis"):  # tests of a GPU do without it
    import hypothesis

    hypothesis.settings.register_profile("untimed", deadline=None)  # a busy machine fails no test
    hypothesis.settings.load_profile("untimed")

two_cores = pytest.mark.skipif(len(allowed_cores()) < 2, reason="needs two cores, one for each GMI")


def pytest_ignore_collect(collection_path, config):
    """`-m gpu` imports nothing of the others: a machine with a GPU may lack what they need, and its minutes are few."""
    if config.option.markexpr == "gpu" and collection_path.suffix == ".py" and collection_path.parent.name != "gpu":
        return True
    return None


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # thousands of tests and all modules, which no later collection has to look through


@pytest.fixture(scope="session", autouse=True)
def signals_are_received():
    """A shell ignores SIGINT for what it starts in the background, `nohup` ignores SIGHUP: programs inherit it."""
    defaults = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGQUIT: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def known_speeds(tmp_path_factory):
    """A cache that knows how fast GMIs reduce here: what every plan would measure first, for seconds."""
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.profiler.speeds import remember

    cache = tmp_path_factory.mktemp("speeds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GMI_DRL_CACHE", str(cache))
        remember(this_node(), "process", OF_CORES)
    return cache


@pytest.fixture(scope="session")
def numbered_folders(tmp_path_factory):
    """A new folder each time. (`mktemp` looks through all that are there, which are thousands.)"""
    base = tmp_path_factory.mktemp("numbered")
    return (base / str(number) for number in count())


@pytest.fixture(autouse=True)
def own_claims(numbered_folders, monkeypatch, known_speeds):
    """Tests claim cores and remember measurements among themselves only."""
    own = next(numbered_folders)
    shutil.copytree(known_speeds, own / "cache")
    (own / "claims").mkdir()
    monkeypatch.setenv("GMI_DRL_CLAIMS", str(own / "claims"))
    monkeypatch.setenv("GMI_DRL_CACHE", str(own / "cache"))


@pytest.fixture(autouse=True)
def others_do_not_disturb(monkeypatch):
    """Measurements of tests count, whatever else keeps the machine busy."""
    monkeypatch.setenv(DISTURBED_VARIABLE, "inf")


@pytest.fixture(autouse=True)
def denormal_numbers_are_numbers():
    """Replicas of DQN and SAC, and their benchmarks, compute with 0 in their place; tests after them do not."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def fork_server():
    """Forks Python processes, which then need not import torch."""
    from tests.fork_server import SERVER

    with closing(SERVER):
        yield SERVER


@pytest.fixture(autouse=True)
def gmis_are_forked(request, fork_server, monkeypatch):
    """What this process launches is forked, but in tests of how GMIs start: `@pytest.mark.starts_gmis`."""
    from tests.fork_server import SPAWNING, spawning

    if not any(map(request.node.get_closest_marker, ("starts_gmis", "gpu"))):
        for module in SPAWNING:
            monkeypatch.setattr(f"{module}.subprocess", spawning(fork_server, module))


@pytest.fixture(scope="session")
def fake_nvml_library(tmp_path_factory):
    """The fake NVML library, compiled."""
    from tests.gmi.nvml.fake import compile_library

    return compile_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def fake_nvml(fake_nvml_library, tmp_path_factory, monkeypatch):
    """A machine without GPUs yet, to which `add` gives some (tests/gmi/nvml/fake.py): here and in child processes."""
    from tests.gmi.nvml.fake import FakeNvml, Loaded

    machine = FakeNvml(tmp_path_factory.mktemp("machine"))
    monkeypatch.setenv("FAKE_NVML", str(machine.root))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{fake_nvml_library.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with closing(Loaded(fake_nvml_library, monkeypatch)):
        yield machine


@pytest.fixture(scope="session")
def fake_mps_programs(tmp_path_factory):
    """Stand-ins for NVIDIA's MPS and CUDA, installed and compiled."""
    from tests.gmi.mps.fake_mps import install_programs

    return install_programs(tmp_path_factory.mktemp("nvidia"))


@pytest.fixture
def fake_mps(fake_nvml, fake_mps_programs, tmp_path, monkeypatch):
    """A machine with one H200 and MPS (tests/gmi/mps/fake_mps.py): here and in child processes."""
    from tests.gmi.mps.fake_mps import FakeMps
    from tests.gmi.nvml.fake import FakeGpu

    fake_nvml.add(FakeGpu())
    fake = FakeMps(tmp_path, Path(tempfile.mkdtemp(prefix="mps-", dir="/tmp")))  # sockets need short paths
    for name, value in fake.environment(fake_mps_programs).items():
        monkeypatch.setenv(name, value)
    yield fake
    for process in fake.processes():
        process.kill()
    shutil.rmtree(fake.base)


@pytest.fixture
def install(tmp_path_factory, monkeypatch):
    """Install a package that adds parts: `(entry points by group, source by module)`. GMIs find it, too."""

    def add(entry_points, modules):
        site = tmp_path_factory.mktemp("site")
        info = site / "toys-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
        groups = (f"[{group}]\n{entries}\n" for group, entries in entry_points.items())
        (info / "entry_points.txt").write_text("".join(groups))
        for name, source in modules.items():
            (site / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(site)
        monkeypatch.setenv("PYTHONPATH", f"{site}:{os.environ.get('PYTHONPATH', '')}")
        return site

    yield add
    for name in [name for name in sys.modules if name.startswith("toy_")]:  # another test may bring others
        del sys.modules[name]


@pytest.fixture(scope="session")
def opengl():
    """For tests that draw: skips them, with the reason, where there is no OpenGL."""
    from gmi_drl.errors import MachineError
    from gmi_drl.tasks.sim.offscreen import open_context

    try:
        open_context(8, 8).free()
    except MachineError as error:
        pytest.skip(str(error))


def quick_kernels():
    """Let Warp compile with few optimisations, which takes less time. Skips where MuJoCo Warp is missing."""
    pytest.importorskip("mujoco_warp", reason="needs MuJoCo Warp: pip install 'gmi-drl[warp]'")
    import warp

    warp.config.optimization_level = 1


def tiny_layout(gmis=2, num_env=8, reduction="MPR-shm", **more):
    """`gmis` holistic GMIs of one core each."""
    parts = tuple(GMI(id=i, num_env=num_env, cores=(i,)) for i in range(gmis))
    group = GmiGroup(members=tuple(range(gmis)), reduction=reduction if gmis > 1 else "none")
    defaults = {"task": "ant", "template": "TCG_EX", "groups": {"trainers": group}}
    return Layout(**(defaults | more), devices=(Device(kind="cpu", gmis=parts),))


def tiny_config(**more):
    """Iterations of a few milliseconds."""
    learner = PPOConfig(horizon=4, epochs=2, minibatches=2)
    return RunConfig(
        **({"iterations": 4, "checkpoint_every": 2, "hang_s": 60, "writers": (), "learner": learner} | more)
    )


@contextmanager
def untrained_run(path, task):
    """A run of two iterations whose policy has learnt nothing; it has to stay as it is."""
    from gmi_drl.comm.reductions.single import NoReduction
    from gmi_drl.roles.training.ppo_replica import PPOReplica

    def files():
        return {file: file.stat().st_mtime_ns for file in path.rglob("*") if file.is_file()}

    folder = RunFolder(path)
    folder.create()
    folder.write_setup(tiny_layout(task=task), tiny_config())
    replica = PPOReplica(
        TASK_SPECS[task], tiny_config(), NoReduction(), sample_share=1.0, device=torch.device("cpu"), seed=0
    )
    checkpoint.write_part(checkpoint.draft(folder.checkpoints, 2), "learner", replica.learner_state())
    checkpoint.commit(folder.checkpoints, 2, checkpoint.NO_TRAINING | {"iteration": 2}, kept=2)
    before = files()
    yield folder
    assert files() == before, "something was written into the run"


@pytest.fixture(scope="module")
def served_run(tmp_path_factory):
    """An untrained run of `ball_balance`."""
    with untrained_run(tmp_path_factory.mktemp("runs") / "run", "ball_balance") as folder:
        yield folder


@contextmanager
def open_layout(layout, config, folder, roles, params, *, slot_bytes):
    """`opened` with the devices claimed for this layout alone."""
    job = Job(layout, config, folder, roles, slot_bytes)
    with claimed([layout], "a test") as claim, opened(claim, job, params) as processes:
        yield processes


@contextmanager
def started(session):
    """A session with the devices claimed for it alone."""
    with claimed([session.layout], "a test") as claim, closing(session):
        session.start(claim)
        yield session


def open_descriptors():
    """Of this process, when what other tests have left to the collector of garbage is closed."""
    gc.collect()
    return set(os.listdir("/proc/self/fd"))


def children_of(pid):
    """Living child processes of a process, but for those that fork GMIs for tests."""
    import psutil

    from tests.fork_server import FORKS_GMIS, PIDS

    def is_ours(child):
        return child.pid in PIDS or child.status() == psutil.STATUS_ZOMBIE or child.cmdline()[-1:] == [FORKS_GMIS]

    found = []
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # this one has ended meanwhile, the others have not
                found += [] if is_ours(child) else [child]
    return found


@pytest.fixture
def command_line(monkeypatch, capsys, tmp_path):
    """Run `gmi-drl ARGS` in this process, in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*args):
        monkeypatch.setattr("sys.argv", ["gmi-drl", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
            raise SystemExit(0)
        printed = capsys.readouterr()
        assert "Traceback" not in printed.out + printed.err
        return ended.value.code or 0, printed.out, printed.err

    return run


def environment():
    """The environment for a command line under test."""
    return {**os.environ, "COLUMNS": "120"}
