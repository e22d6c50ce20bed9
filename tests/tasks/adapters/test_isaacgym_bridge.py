import ast
import sys
from pathlib import Path

from gmi_drl.tasks.adapters import isaacgym_bridge
from gmi_drl.tasks.adapters.isaacgym_bridge import memory_bytes, views

SIZES = {"num_env": 3, "num_obs": 5, "num_actions": 2}


def test_the_bridge_is_a_script_for_old_interpreters():
    source = Path(isaacgym_bridge.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 7))
    imported = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imported}
    assert "__future__" in modules, "annotations must not be evaluated"
    assert modules - {"numpy"} <= set(sys.stdlib_module_names)


def test_both_sides_see_the_same_arrays_and_none_overlap():
    memory = bytearray(memory_bytes(**SIZES))
    mine, theirs = views(memory, **SIZES), views(memory, **SIZES)
    for number, name in enumerate(mine, 1):
        mine[name][...] = number
    for number, name in enumerate(theirs, 1):
        assert (theirs[name] == theirs[name].dtype.type(number)).all()
    assert mine["obs"].shape == (3, 5) and mine["action"].shape == (3, 2) and mine["bad"].shape == (3,)
