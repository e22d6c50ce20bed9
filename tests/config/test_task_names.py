import sys

import pytest

from gmi_drl.config.task_names import ADAPTERS, ForeignTask, as_file_name, find_task, known_tasks, with_arguments
from gmi_drl.errors import MachineError, UsageError
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


@pytest.mark.parametrize("prefix", sorted(ADAPTERS.keys() - {"several"}))  # which has no simulator
def test_every_adapter_is_importable_without_its_simulator(prefix, monkeypatch):
    for module in ("gymnasium", "envpool", "isaaclab", "mjlab", "ale_py", "pettingzoo"):
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


NAME = "gymnasium:my_robot:Walk-v0"


def test_arguments_are_part_of_a_name_whatever_their_order():
    given = ["urdf_path=/a/b.urdf", "size=2.5", "flags={gravity: no}", "text='3'"]
    name = with_arguments(NAME, given)
    assert name == with_arguments(NAME, given[::-1]) == with_arguments(with_arguments(NAME, given[:2]), given[2:])
    found = find_task(name)
    assert (found.name, found.rest) == (name, "my_robot:Walk-v0")
    assert found.arguments == {"urdf_path": "/a/b.urdf", "size": 2.5, "flags": {"gravity": False}, "text": "3"}
    assert find_task('Gymnasium:X-v0{"b":1,  "a":[2]}').name == 'gymnasium:X-v0{"a": [2], "b": 1}'
    assert with_arguments(NAME, []) == NAME and not find_task(NAME).arguments
    assert as_file_name(name) == as_file_name(NAME)


@pytest.mark.parametrize("given", ["urdf_path", "=3", "a b=3", "a=[", "a=!!binary aGk=", "a=!!python/none x"])
def test_what_is_no_argument_is_refused(given):
    with pytest.raises(UsageError, match=r"^--env-arg"):
        with_arguments(NAME, [given])


def test_an_argument_is_given_once():
    with pytest.raises(UsageError, match="size is given twice"):
        with_arguments(NAME, ["size=1", "size=2"])


def test_arguments_that_are_no_json_are_refused():
    with pytest.raises(UsageError, match=r"is not JSON.*--env-arg KEY=VALUE"):
        find_task(NAME + "{size: 1}")


def test_our_own_tasks_take_no_arguments():
    with pytest.raises(UsageError, match="ant is a task of gmi-drl and takes no arguments"):
        find_task(with_arguments("ant", ["size=1"]))
    with pytest.raises(UsageError, match="mujoco:Ant-v5 is a task of gmi-drl and takes no arguments"):
        find_task(with_arguments("mujoco:Ant-v5", ["size=1"]))
