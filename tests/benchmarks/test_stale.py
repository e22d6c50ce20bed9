import subprocess

import pytest

from gmi_drl.benchmarks.cases import CASES, MODULES
from gmi_drl.benchmarks.dependencies import code_of
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.benchmarks.sources import working_tree
from gmi_drl.benchmarks.stale import ROOT, stale
from gmi_drl.errors import MachineError
from tests.benchmarks.toy import toy_case, toy_machine

CASE = "from gmi_drl.physics import step\n\n\ndef side():\n    from gmi_drl.lazy import late\n"
ROLE = 'ROLE = "gmi_drl.role:Role"\n'
MODULE = {"toy": "gmi_drl.benchmarks.cases.toy"}


def git(root, *arguments):
    own = ["-c", "user.name=a", "-c", "user.email=a@b"]
    run = subprocess.run(["git", "-C", root, *own, *arguments], capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A repository with a package, and a result that was measured at its only commit."""
    files = {
        "benchmarks/cases/toy": CASE,
        "physics": "import gmi_drl.units\n",
        "units": ROLE,
        "lazy": "",
        "role": "A = 1\n",
    }
    for name, text in (files | {"stranger": "A = 1\n", "benchmarks/case": "", "benchmarks/report": "A = 1\n"}).items():
        file = tmp_path / "gmi_drl" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "measured")
    return tmp_path


def measured(commit):
    result = run_case(toy_case(), repeats=1)
    return {"toy": result.model_copy(update={"machine": toy_machine(commit=commit)})}


def change(checkout, name, text="A = 2\n"):
    (checkout / "gmi_drl" / f"{name}.py").write_text(text)


def test_a_result_is_stale_once_code_has_changed_that_its_case_imports(checkout):
    results = measured(git(checkout, "rev-parse", "--short", "HEAD"))
    assert stale(results, checkout, MODULE) == {}
    for name in ("stranger", "benchmarks/case", "benchmarks/report"):
        change(checkout, name)
    change(checkout, "role", '"""A docstring."""\n\nA = 1  # a comment\n')
    assert stale(results, checkout, MODULE) == {}
    for name in ("benchmarks/cases/toy", "physics", "units", "lazy", "role"):
        change(checkout, name)
        (reason,) = stale(results, checkout, MODULE).values()
        assert f"since then gmi_drl/{name}.py has changed" in reason
        git(checkout, "checkout", f"gmi_drl/{name}.py")


def test_a_change_that_was_committed_counts_as_well(checkout):
    results = measured(git(checkout, "rev-parse", "--short", "HEAD"))
    change(checkout, "role")
    git(checkout, "commit", "-qam", "changed")
    assert list(stale(results, checkout, MODULE)) == ["toy"]
    assert stale(measured(git(checkout, "rev-parse", "HEAD")), checkout, MODULE) == {}


@pytest.mark.parametrize("commit", ["", "abc1234-dirty", "abc1234"])
def test_what_cannot_be_known_is_stale(checkout, commit):
    assert "measured" in stale(measured(commit), checkout, MODULE)["toy"]


def test_without_a_repository_an_error_is_raised(tmp_path):
    with pytest.raises(MachineError, match="git must read a checkout"):
        stale(measured("abc1234"), tmp_path, MODULE)


def test_cases_depend_on_what_they_run_and_on_nothing_of_the_others():
    sources = working_tree(ROOT)
    code = {name: code_of(sources, module) for name, module in MODULES.items()}
    assert list(code) == list(CASES)
    assert {"gmi_drl/tasks/sim/native.py", "gmi_drl/tasks/ant_mjcf.py"} < code["ant_step"]
    assert {"gmi_drl/roles/probes/probe.py", "gmi_drl/algo/ppo.py"} < code["gmis_512"], "a role that is named as text"
    assert "gmi_drl/benchmarks/cases/components/reduction_role.py" in code["reduction_114k"]
    assert "benchmarks/peers/train_sb3.py" in code["ppo_ant_v5"]
    assert not any("tasks" in file or "launch" in file for file in code["planning"] | code["ppo_update"])
