"""A machine whose first GPU layouts cut by MIG, in tests that see no claims but their own."""

from gmi_drl.gmi import claimed, claims
from gmi_drl.gmi.inventory import nvml_open
from gmi_drl.gmi.mig import busy
from gmi_drl.gmi.mig.apply import change, make
from gmi_drl.gmi.mig.driver import MigDriver
from gmi_drl.layout.layout import GMI, Device, Layout
from tests.gmi.nvml.fake import FakeGpu

A100 = "NVIDIA A100-SXM4-40GB"


def keep_to_itself(tmp_path, monkeypatch):
    """No claims of others, no long waits, and processes that NVML lists."""
    monkeypatch.setenv("GMI_DRL_CLAIMS", str(tmp_path))
    monkeypatch.setattr(busy.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setattr(make, "hides_processes", lambda: False)
    monkeypatch.setattr(claims, "PATIENCE_S", 0.05)
    monkeypatch.setattr(change, "RETRY_S", 0.01)
    monkeypatch.setattr(make, "PATIENCE_S", 0.2)


def cut_a100(fake_nvml):
    """Root on a machine with an A100 that is cut already."""
    fake_nvml.add(FakeGpu(A100, mig=("3g.20gb", "1g.5gb")))
    fake_nvml.write("root", "")
    return fake_nvml


def layout(*profiles, backend="mig", gpus=1):
    each = len(profiles)
    devices = tuple(
        Device(
            kind="gpu",
            index=gpu,
            gmis=tuple(GMI(id=gpu * each + i, num_env=1, cores=(0,), mig_profile=p) for i, p in enumerate(profiles)),
        )
        for gpu in range(gpus)
    )
    return Layout(backend=backend, share_cores=True, devices=devices)


def state(machine, gpu=0):
    with nvml_open():
        return MigDriver(machine.uuid(gpu)).state()


def cut(one):
    """What GMIs see meanwhile."""
    with claimed([one], "a test", apply_mig=True) as held, held.cut(one) as instances:
        return [instances.environment(gmi.id)["CUDA_VISIBLE_DEVICES"] for gmi in one.gmis]
