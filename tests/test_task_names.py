import sys

import pytest

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.task_names import ADAPTERS, ForeignTask, as_file_name, find_task, known_tasks
from gmi_drl.workload import MUJOCO_SPECS, TASK_SPECS


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that registers the task `waddle` and the prefix `zoo`, and one entry point that leads nowhere."""
    (tmp_path / "penguin.py").write_text("def make(rest, **sizes): return rest, sizes\n")
    folder = tmp_path / "penguin-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: penguin\nVersion: 1.0\n")
    points = ["waddle = penguin:make", "zoo = penguin:make", "gone = penguin:missing", "ant = penguin:make"]
    (folder / "entry_points.txt").write_text("[gmi_drl.tasks]\n" + "\n".join(points) + "\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("spelling", ["ant", "ANT", "AT", "at"])
def test_our_own_tasks_are_known_by_name_and_alias(spelling):
    assert find_task(spelling) is TASK_SPECS["ant"]


@pytest.mark.parametrize("name", MUJOCO_SPECS)
def test_gymnasiums_tasks_on_our_physics_are_ours(name):
    assert find_task(name) is find_task(name.upper()) is MUJOCO_SPECS[name]


def test_a_prefix_names_an_adapter_and_nothing_is_imported():
    before = set(sys.modules)
    found = find_task("Gymnasium:ale_py:ALE/Pong-v5")
    assert isinstance(found, ForeignTask) and found.rest == "ale_py:ALE/Pong-v5"
    assert found.name == "gymnasium:ale_py:ALE/Pong-v5" and found.entry_point.value == ADAPTERS["gymnasium"]
    assert not {name for name in set(sys.modules) - before if name.startswith("gmi_drl")}


@pytest.mark.parametrize("prefix", ADAPTERS)
def test_every_adapter_is_importable_without_its_simulator(prefix, monkeypatch):
    for module in ("gymnasium", "envpool", "isaaclab", "mjlab"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delenv("GMI_DRL_SIMULATOR_PYTHON", raising=False)
    monkeypatch.delitem(sys.modules, ADAPTERS[prefix].partition(":")[0], raising=False)
    remedy = "--simulator-python PATH" if prefix == "isaacgym" else r"is not installed.*pip install"
    with pytest.raises(MachineError, match=remedy):
        find_task(f"{prefix}:Ant").maker()("Ant", num_env=1, device="cpu", seed=0, threads=1)


def test_installed_packages_add_names_and_prefixes_but_replace_none(installed):
    assert find_task("waddle").maker()("", num_env=2) == ("", {"num_env": 2})
    assert find_task("zoo:lion").rest == "lion" and find_task("zoo:lion").name == "zoo:lion"
    assert find_task("ant") is TASK_SPECS["ant"]
    with pytest.raises(MachineError, match="gone: penguin:missing cannot be imported"):
        find_task("gone").maker()
    with pytest.raises(UsageError, match="no task 'wadle'; did you mean 'waddle'"):
        find_task("wadle")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("antt", "there is no task 'antt'; did you mean 'ant'"),
        ("walk-the-dog", "known: ant, .*gymnasium:NAME"),
        ("gymnasum:Ant-v5", "nothing makes 'gymnasum'; did you mean 'gymnasium'"),
        ("gymnasium", "names no task: say which, as in gymnasium:NAME"),
        ("mjlab:", "names no task"),
        ("mujoco", "there are mujoco:Ant-v5, .*; gymnasium:NAME makes all others"),
        ("mujoco:Swimmer-v5", "no task 'mujoco:Swimmer-v5': there are mujoco:Ant-v5"),
        ("mujocu:Ant-v5", "nothing makes 'mujocu'; did you mean 'mujoco'"),
        ("Hopper-v5", "there is no task 'Hopper-v5'; did you mean 'mujoco:Hopper-v5'"),
        ("", "there is no task ''"),
    ],
)
def test_unknown_names_are_told_what_is_near(name, message):
    with pytest.raises(UsageError, match=message):
        find_task(name)


def test_names_for_people_and_for_files():
    assert all(name in known_tasks() for name in ("ant", "mujoco:Ant-v5", "gymnasium:NAME"))
    assert as_file_name("gymnasium:ale_py:ALE/Pong-v5") == "gymnasium-ale_py-ALE-Pong-v5"
