import importlib
import subprocess

import pytest

from gmi_drl.benchmarks.cases import CASES, MEASURED, MODULES
from gmi_drl.benchmarks.moves import Moves
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.benchmarks.sources import Sources, working_tree
from gmi_drl.benchmarks.stale import ROOT, files_of, own_files, stale
from gmi_drl.errors import MachineError
from tests.benchmarks.toy import toy_case, toy_machine

CASE = "from gmi_drl.physics import step\n\n\ndef side():\n    from gmi_drl.lazy import late\n"
ROLE = 'ROLE = "gmi_drl.roles.role:Role"\n'
MODULE = {"toy": ("gmi_drl/physics.py", "gmi_drl/roles/")}
MADE_IN = {"toy": "gmi_drl.benchmarks.cases.toy"}

OF_OURS_ALONE = "ppo_ant_v5_bf16"
"""A case without peers, of a module whose other case has some."""


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
        "roles/role": "A = 1\n",
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


def test_a_result_is_stale_once_code_has_changed_that_its_case_measures(checkout):
    results = measured(git(checkout, "rev-parse", "--short", "HEAD"))
    assert stale(results, checkout, MODULE) == {}
    change(checkout, "roles/role", '"""A docstring."""\n\nA = 1  # a comment\n')
    assert stale(results, checkout, MODULE) == {}
    for name in ("physics", "roles/role"):
        change(checkout, name)
        (reason,) = stale(results, checkout, MODULE).values()
        assert f"since then gmi_drl/{name}.py has changed" in reason
        git(checkout, "checkout", f"gmi_drl/{name}.py")


def test_what_is_only_imported_makes_nothing_stale(checkout):
    results = measured(git(checkout, "rev-parse", "--short", "HEAD"))
    for name in ("units", "stranger", "benchmarks/case", "benchmarks/report"):
        change(checkout, name)
    assert stale(results, checkout, MODULE, MADE_IN) == {}


def test_a_result_is_stale_once_its_case_or_what_that_measures_with_has_changed(checkout):
    common = "from gmi_drl.benchmarks.cases.common import"
    files = {
        "toy": f"{CASE}    {common} late\n\n\nfrom gmi_drl.benchmarks.cases import ends\n{common} requirements\n",
        "ends": 'ROLE = "gmi_drl.benchmarks.cases.role:Role"\n',
        **dict.fromkeys(("common/__init__", "common/late", "common/requirements", "role", "another"), "A = 1\n"),
    }
    (checkout / "gmi_drl" / "benchmarks" / "cases" / "common").mkdir()
    for name, text in files.items():
        change(checkout, f"benchmarks/cases/{name}", text)
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "ends")
    results = measured(git(checkout, "rev-parse", "HEAD"))
    for name in ("toy", "ends", "common/late", "role"):
        change(checkout, f"benchmarks/cases/{name}", f"{files[name]}B = 2\n")
        (reason,) = stale(results, checkout, MODULE, MADE_IN).values()
        assert f"since then gmi_drl/benchmarks/cases/{name}.py has changed" in reason
        git(checkout, "checkout", ".")
    for name in ("another", "common/requirements"):  # the latter only says what a machine must have
        change(checkout, f"benchmarks/cases/{name}")
    assert stale(results, checkout, MODULE, MADE_IN) == {}


def test_words_of_a_case_make_nothing_stale(checkout):
    made = 'from gmi_drl.benchmarks.case import Case\n\nCASE = Case(name="toy", claim="{}", floor={}, repeats={})\n'
    change(checkout, "benchmarks/cases/toy", made.format("Fast.", 1, 5))
    git(checkout, "commit", "-qam", "made")
    results = measured(git(checkout, "rev-parse", "HEAD"))
    change(checkout, "benchmarks/cases/toy", made.format("Faster.", 2, 5))
    assert stale(results, checkout, MODULE, MADE_IN) == {}
    change(checkout, "benchmarks/cases/toy", made.format("Fast.", 1, 3))
    assert list(stale(results, checkout, MODULE, MADE_IN)) == ["toy"]


def test_the_files_of_a_case_are_found_by_what_it_imports():
    sources = working_tree(ROOT)
    files = own_files(sources, MODULES["shards_window"])
    assert "gmi_drl/benchmarks/cases/components/shard_ends.py" in files
    assert "gmi_drl/benchmarks/cases/components/replay_shards.py" in files
    reducing = own_files(sources, MODULES["reductions_2"])
    assert "gmi_drl/benchmarks/cases/components/reduction_role.py" in reducing
    every = [file for module in MODULES.values() for file in own_files(sources, module)]
    assert "gmi_drl/benchmarks/cases/__init__.py" not in every
    assert "gmi_drl/launch/" in MEASURED["resizing"]


def test_a_name_has_one_place_however_it_is_imported():
    files = {"gmi_drl/z.py": "class A:\n    b = 1\n", "gmi_drl/x.py": "from gmi_drl.z import A\n"}
    sources = Sources(files, Moves())
    assert sources.place("gmi_drl.z.A.b") == sources.place("gmi_drl.x.A.b") == "gmi_drl.z:A.b"
    assert sources.place("gmi_drl.x.A") == "gmi_drl.z:A" and sources.place("gmi_drl.z") == "gmi_drl.z:"


def test_compiled_drivers_are_no_sources(tmp_path):
    for name, content in (("settings.py", b"A = 1"), ("__pycache__/settings.pyc", b"\xff"), ("pins.txt", b"rllib")):
        (file := tmp_path / "benchmarks" / "peers" / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    assert sorted(working_tree(tmp_path).files) == ["benchmarks/peers/pins.txt", "benchmarks/peers/settings.py"]


def test_a_change_that_was_committed_counts_as_well(checkout):
    results = measured(git(checkout, "rev-parse", "--short", "HEAD"))
    change(checkout, "roles/role")
    git(checkout, "commit", "-qam", "changed")
    assert list(stale(results, checkout, MODULE)) == ["toy"]
    assert stale(measured(git(checkout, "rev-parse", "HEAD")), checkout, MODULE) == {}


@pytest.mark.parametrize("commit", ["", "abc1234-dirty", "abc1234"])
def test_what_cannot_be_known_is_stale(checkout, commit):
    assert "measured" in stale(measured(commit), checkout, MODULE)["toy"]


def test_without_a_repository_an_error_is_raised(tmp_path):
    with pytest.raises(MachineError, match="git must read a checkout"):
        stale(measured("abc1234"), tmp_path, MODULE)


def test_every_case_names_what_it_measures():
    sources = working_tree(ROOT)
    assert list(MEASURED) == list(CASES)
    for paths in MEASURED.values():
        missing = [path for path in paths if not files_of(sources, (path,))]
        missing += [path for path in files_of(sources, paths) if path not in sources.files]
        assert paths and missing == []
    assert "gmi_drl/tasks/ant_mjcf.py" in MEASURED["ant_step"] and "gmi_drl/algo/ppo.py" in MEASURED["gmis_512"]
    assert not any("launch" in path or "cli" in path for path in MEASURED["gmis_512"])


def test_a_case_names_the_pinned_versions_of_its_own_peers_alone():
    folder = "benchmarks/peers/requirements/"
    assert not any(path.startswith(folder) for path in MEASURED[OF_OURS_ALONE])
    for case, module in MODULES.items():
        if case == OF_OURS_ALONE:
            continue
        named = {path for path in MEASURED[case] if path.startswith(folder)}
        assert folder not in named
        found = importlib.import_module(module)
        own = getattr(found, "PEERS", None) or filter(None, [getattr(found, "PEER", None)])
        assert {f"{folder}{peer}.txt" for peer in own} in ({*named}, set())
