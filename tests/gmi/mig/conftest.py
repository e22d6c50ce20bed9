import pytest

from gmi_drl.gmi import claims
from gmi_drl.gmi.mig import busy, change, make
from tests.gmi.mig.cut_by_mig import A100
from tests.gmi.nvml.fake import FakeGpu


@pytest.fixture(autouse=True)
def own_claims(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CLAIMS", str(tmp_path))
    monkeypatch.setattr(busy.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setattr(make, "hides_processes", lambda: False)
    monkeypatch.setattr(claims, "PATIENCE_S", 0.05)
    monkeypatch.setattr(change, "RETRY_S", 0.01)
    monkeypatch.setattr(make, "PATIENCE_S", 0.2)


@pytest.fixture
def machine(fake_nvml):
    fake_nvml.add(FakeGpu(A100, mig=("3g.20gb", "1g.5gb")))
    fake_nvml.write("root", "")
    return fake_nvml
