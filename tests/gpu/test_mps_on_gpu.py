import shutil
import tempfile
from pathlib import Path

import pytest

from gmi_drl import run_role
from gmi_drl.gmi import allowed_cores
from gmi_drl.layout.layout import GMI, Device, Layout

pytestmark = pytest.mark.gpu

ROLE = f"{Path(__file__).parent / 'mps_sums.py'}:Sums"


@pytest.mark.skipif(shutil.which("nvidia-cuda-mps-control") is None, reason="needs nvidia-cuda-mps-control")
def test_two_gmis_are_clients_with_half_of_the_sms_each_and_nothing_is_left(tmp_path, monkeypatch):
    folder = Path(tempfile.mkdtemp(prefix="mps-", dir="/tmp"))  # sockets need short paths
    monkeypatch.setenv("GMI_DRL_MPS", str(folder))
    cores = allowed_cores()
    parts = tuple(GMI(id=i, num_env=1, cores=(i % len(cores),), share=0.5) for i in range(2))
    layout = Layout(backend="mps", share_cores=True, devices=(Device(kind="gpu", gmis=parts),))
    told = run_role(ROLE, layout, run_dir=tmp_path / "run")  # which refuses those that do not attach
    alone = (parts[0].model_copy(update={"share": None}),)
    whole = run_role(ROLE, Layout(backend="mps", devices=(Device(kind="gpu", gmis=alone),)), run_dir=tmp_path / "one")
    assert {one["percentage"] for one in told.values()} == {"50"} and told[0]["sum"] == told[1]["sum"] == 1024.0**2
    assert whole[0]["percentage"] is None
    assert told[0]["sms"] <= whole[0]["sms"] // 2 + 2
    assert list(folder.iterdir()) == []
    folder.rmdir()
