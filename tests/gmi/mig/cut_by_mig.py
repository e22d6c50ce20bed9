"""A first GPU that layouts cut by `--apply-mig`."""

from gmi_drl.gmi import claimed
from gmi_drl.gmi.inventory import nvml_open
from gmi_drl.gmi.mig.driver import MigDriver
from gmi_drl.layout import GMI, Device, Layout

A100 = "NVIDIA A100-SXM4-40GB"


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
