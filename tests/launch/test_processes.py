from contextlib import closing

import pytest
from conftest import tiny_config, tiny_layout

from gmi_drl.errors import GmiError
from gmi_drl.gmi import ProcessBackend
from gmi_drl.launch.processes import FIRST_ROW_S, START_S, GMIProcesses
from gmi_drl.run.folder import RunFolder


def test_before_the_first_row_of_all_a_silence_may_be_long(tmp_path):
    layout, folder = tiny_layout(1), RunFolder(tmp_path / "run")
    folder.create()
    folder.write_setup(layout, tiny_config())
    with closing(ProcessBackend("a test")) as backend:
        processes = GMIProcesses(layout, "unused:Role", {}, folder, backend, hang_s=60, slot_bytes=64)
        processes._check_silence(FIRST_ROW_S - 1, silence_s=60)
        with pytest.raises(GmiError, match="no GMI has been heard of for 1201 s"):
            processes._check_silence(FIRST_ROW_S + 1, silence_s=60)
        processes._has_told = True
        processes._check_silence(START_S - 1, silence_s=60)
        with pytest.raises(GmiError, match="no GMI has been heard of for 121 s"):
            processes._check_silence(START_S + 1, silence_s=60)
