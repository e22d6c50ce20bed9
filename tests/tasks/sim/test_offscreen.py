import pytest

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.tasks.sim import offscreen


@pytest.fixture(autouse=True)
def choose_anew():
    offscreen._platform.cache_clear()
    yield
    offscreen._platform.cache_clear()


def test_the_first_that_works_is_taken(monkeypatch):
    monkeypatch.setattr(offscreen, "_try", lambda platform: "no device" if platform == "egl" else "")
    assert offscreen._platform("") == "osmesa"


def test_only_the_users_choice_is_tried(monkeypatch):
    monkeypatch.setattr(offscreen, "_try", lambda platform: "" if platform == "egl" else "no library")
    assert offscreen._platform("egl") == "egl"
    with pytest.raises(MachineError, match=r"\(osmesa: no library\)"):
        offscreen._platform("osmesa")


def test_a_crash_is_a_failure(monkeypatch):
    monkeypatch.setattr(offscreen.sys, "executable", "/bin/false")
    assert offscreen._try("egl") == "exit status 1"


def test_another_choice_is_refused(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "vulkan")
    with pytest.raises(UsageError, match="MUJOCO_GL is 'vulkan', but pictures without a window need egl or osmesa"):
        offscreen.open_context(8, 8)


def test_without_any_the_packages_are_named(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(offscreen, "PLATFORMS", ("none_such", "none_either"))
    message = "none_such: .*No module named.*none_either.*libosmesa6.*libegl1"
    with pytest.raises(MachineError, match=message):
        offscreen.open_context(8, 8)
