import pytest
from conftest import tiny_layout, two_cores

from gmi_drl import run_role
from gmi_drl.errors import GmiError
from gmi_drl.files import dump_yaml

ROLES = """
import os, time
import torch
import gmi_drl as GMI_DRL

class Adder(GMI_DRL.DRL_role):
    def GMI_run(self, rounds):
        data = torch.full((4,), float(self.GMI_id + 1))
        for _ in range(rounds):
            self.GMI_collective(data)
        return {"sum": data.tolist(), "cores": sorted(os.sched_getaffinity(0)), "threads": torch.get_num_threads()}

class Crasher(GMI_DRL.DRL_role):
    def GMI_run(self):
        if self.GMI_id == 1:
            raise ValueError("a bug in my role")
        self.GMI_collective(torch.zeros(2))

class Vanisher(GMI_DRL.DRL_role):
    def GMI_run(self):
        if self.GMI_id == 1:
            os._exit(7)
        self.GMI_collective(torch.zeros(2))
"""


@pytest.fixture
def roles(tmp_path):
    path = tmp_path / "roles.py"
    path.write_text(ROLES)
    return path


@two_cores
def test_a_users_role_runs_on_every_gmi_on_its_own_cores(roles, tmp_path):
    layout_file = tmp_path / "layout.yaml"
    layout_file.write_text(dump_yaml(tiny_layout(2)))
    results = run_role(f"{roles}:Adder", layout_file, {"rounds": 2}, run_dir=tmp_path / "run")
    assert results[0]["sum"] == results[1]["sum"] == [6.0] * 4
    assert results[0]["threads"] == 1 and results[0]["cores"] != results[1]["cores"]


@two_cores
def test_a_bug_in_one_gmi_is_told_not_that_the_others_lost_a_peer(roles, tmp_path):
    with pytest.raises(GmiError, match=r"GMI 1: ValueError: a bug in my role(.|\n)*gmi-1.log"):
        run_role(f"{roles}:Crasher", tiny_layout(2), run_dir=tmp_path / "run")


@two_cores
def test_a_gmi_that_vanishes_is_named_with_its_exit_code(roles, tmp_path):
    with pytest.raises(GmiError, match=r"GMI 1 \(process \d+\) exited with code 7"):
        run_role(f"{roles}:Vanisher", tiny_layout(2), run_dir=tmp_path / "run")


def test_a_role_that_does_not_exist_is_named(roles, tmp_path):
    with pytest.raises(GmiError, match="cannot be loaded"):
        run_role(f"{roles}:Missing", tiny_layout(1), run_dir=tmp_path / "run")
