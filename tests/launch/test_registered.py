"""Parts that another package brings by entry points, in real trainings: a GMI, a fresh process, finds them, too."""

import os

from conftest import tiny_config, tiny_layout, two_cores

from gmi_drl.launch.training import train
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


@two_cores
def test_a_reduction_of_another_package_trains(tmp_path, monkeypatch):
    info = tmp_path / "toys-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gmi_drl.reductions]\ntoy = toy_method:METHOD\n")
    (tmp_path / "toy_method.py").write_text(METHOD)
    (tmp_path / "toy_reduction.py").write_text(REDUCTION)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    folder = RunFolder(tmp_path / "run")
    folder.create()
    assert train(tiny_layout(2, reduction="toy"), tiny_config(), folder).state == "done"
    assert {path.name for path in tmp_path.glob("reduced-*")} == {"reduced-0", "reduced-1"}
