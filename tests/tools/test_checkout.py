import subprocess

import pytest

from gmi_drl.gmi.inventory import allowed_cores
from tools import checkout

CORES = [min(allowed_cores())]


def test_a_training_that_fails_tells_its_last_words(tmp_path):
    with pytest.raises(RuntimeError, match="there is no task 'ent'"):
        checkout.train(checkout.ROOT, {"--task": "ent"}, tmp_path / "run", cores=CORES)


def test_a_command_runs_the_package_of_its_checkout_wherever_it_is_started(tmp_path):
    """Also in the root of another one, whose package the working directory would bring in."""
    (tmp_path / "gmi_drl" / "cli").mkdir(parents=True)
    (tmp_path / "gmi_drl" / "__init__.py").touch()
    (tmp_path / "gmi_drl" / "cli" / "__init__.py").write_text("def main():\n    print('the other one')\n")
    asked = checkout.command(tmp_path, "bench")
    ended = subprocess.run(**asked, cwd=checkout.ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == "the other one\n"
    assert checkout.printed(tmp_path, [["bench"], ["plan"]], checkout.ROOT, CORES) == ["the other one\nexit code 0"] * 2


def test_a_module_of_tools_is_that_of_the_checkout(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").touch()
    (tmp_path / "tools" / "other.py").write_text("import sys; open(sys.argv[1], 'w').close()")
    checkout.run(tmp_path, ["tools.other", "here"], tmp_path)
    assert (tmp_path / "here").exists()
