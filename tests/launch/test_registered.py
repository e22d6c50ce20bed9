"""Parts that another package brings by entry points, in real trainings: a GMI, a fresh process, finds them, too."""

import pytest
from conftest import tiny_config, tiny_layout, two_cores
from toys import install_backend

from gmi_drl.errors import MachineError
from gmi_drl.files import load_yaml
from gmi_drl.launch.training import train
from gmi_drl.layout import Layout
from gmi_drl.run.folder import RunFolder

METHOD = """
from dataclasses import replace
from gmi_drl.reductions import MPR_SHM
METHOD = replace(MPR_SHM, name="toy", reduction="toy_reduction:Toy")
"""
REDUCTION = """
from pathlib import Path
from gmi_drl.comm.mpr_shm import SharedMemoryReduction

class Toy(SharedMemoryReduction):
    def reduce(self, bucket):
        super().reduce(bucket)
        Path(__file__).with_name(f"reduced-{self.group.rank}").touch()
"""


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    return folder


@two_cores
def test_a_reduction_of_another_package_trains(folder, install):
    modules = {"toy_method": METHOD, "toy_reduction": REDUCTION}
    site = install({"gmi_drl.reductions": "toy = toy_method:METHOD"}, modules)
    assert train(tiny_layout(2, reduction="toy"), tiny_config(), folder).state == "done"
    assert {path.name for path in site.glob("reduced-*")} == {"reduced-0", "reduced-1"}


def test_a_backend_of_another_package_trains(folder, install):
    toy = install_backend(install)
    assert train(tiny_layout(1, backend="toy"), tiny_config(), folder).state == "done"
    assert "backend: toy" in folder.layout_file.read_text()
    assert (toy.cuts, toy.alive) == (1, 0)


def test_devices_that_cannot_be_cut_leave_no_run(folder, install, monkeypatch):
    def refuse(backend, layout):
        raise MachineError("no rights")

    monkeypatch.setattr(install_backend(install), "cut", refuse)
    with pytest.raises(MachineError, match="no rights"):
        train(tiny_layout(1, backend="toy"), tiny_config(), folder)
    folder.create()  # as in an empty one


TEMPLATE = """
from gmi_drl.templates.tcg_ex import TcgEx

class Toy(TcgEx):
    name, what = "toy", "as TCG_EX, by a role of its own"

    def roles(self, layout, learner):
        return {gmi.id: "toy_role:Toy" for gmi in layout.gmis}

ENTRY = Toy()
"""
ROLE = """
from pathlib import Path
from gmi_drl.roles.holistic import Holistic

class Toy(Holistic):
    def GMI_run(self, **params):
        Path(__file__).with_name(f"ran-{self.GMI_id}").touch()
        return super().GMI_run(**params)
"""


@two_cores
def test_a_template_of_another_package_plans_and_trains(install, command_line, tmp_path):
    modules = {"toy_template": TEMPLATE, "toy_role": ROLE}
    site = install({"gmi_drl.templates": "toy = toy_template:ENTRY"}, modules)
    plan = ("plan", "--template", "toy", "--budget", 0, "--num-env", 8, "--gmis-per-gpu", 2)
    code, out, _ = command_line(*plan)
    assert code == 0 and "toy: as TCG_EX, by a role of its own" in out
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert layout.template == "toy" and len(layout.gmis) == 2
    folder = RunFolder(tmp_path / "run")
    folder.create()
    assert train(layout, tiny_config(), folder).state == "done"
    assert {path.name for path in site.glob("ran-*")} == {"ran-0", "ran-1"}
