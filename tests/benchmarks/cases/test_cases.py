import subprocess
import sys

import pytest

from gmi_drl.benchmarks.cases import CASES, find_case
from gmi_drl.errors import UsageError


def test_knowing_the_cases_costs_no_torch():
    code = "import sys; from gmi_drl.benchmarks.cases import CASES; [case.obstacle() for case in CASES.values()]\n"
    code += "print([name for name in ('torch', 'mujoco', 'matplotlib', 'rsl_rl') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_names_are_keys_and_files():
    assert all(name == case.name and name.replace("_", "").isalnum() for name, case in CASES.items())
    assert find_case("ant_step") is CASES["ant_step"]
    with pytest.raises(UsageError, match="did you mean 'ant_step'"):
        find_case("ant_stp")


def test_a_guarded_case_has_a_floor_too():
    bounds = [(case.guard, case.floor) for case in CASES.values()]
    assert all((guard is None) == (floor is None) for guard, floor in bounds) and any(guard for guard, _ in bounds)
