from functools import partial
from importlib.metadata import PackageNotFoundError

from gmi_drl.config import physics


def version_of(version, package):
    if version is None:
        raise PackageNotFoundError(package)
    return version


def test_a_gpu_gets_warp_where_it_is_installed_and_a_cpu_never(monkeypatch):
    for version, expected in (("4.0.0", "warp"), ("3.17.0", "native"), (None, "native")):
        monkeypatch.setattr(physics, "version", partial(version_of, version))
        assert physics.usual_physics(on_gpu=True) == expected
        assert physics.usual_physics(on_gpu=False) == "native"
