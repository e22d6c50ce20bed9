import pytest
from layouts import A100, backends, cut, even, exported, node  # noqa: F401

from gmi_drl.errors import UsageError
from gmi_drl.layout.export import FORMATS, export, require_sayable

pytestmark = pytest.mark.usefixtures("backends")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_the_layouts_of_its_backends_and_refuses_the_others(name):
    for backend in ("process", "mps", "mig", "mig-ci"):
        layout = cut(backend, even(2))
        if backend in FORMATS[name].backends:
            assert exported(name, layout, A100).endswith("\n")
            continue
        with pytest.raises(UsageError, match=f"cannot say what backend '{backend}' does.*or take --format"):
            exported(name, layout, A100)


def test_what_only_gpus_have_is_not_said_of_cores():
    for name in ("mig-parted", "kubernetes", "nvidia-smi"):
        with pytest.raises(UsageError, match="on cores: take slurm or env"):
            exported(name, cut("process", even(2), kind="cpu"))


def test_a_backend_that_nobody_can_say_is_refused_without_a_way_out():
    with pytest.raises(UsageError, match=r"plan with --backend mig or --backend mig-ci$"):
        require_sayable("nvidia-smi", "toy", on_gpus=True)


def test_what_the_profile_decides_is_refused_later():
    require_sayable("mig-parted", None, on_gpus=True)


def test_a_layout_of_a_larger_machine_is_refused():
    with pytest.raises(UsageError, match="uses GPU 1, box has 1 GPU"):
        export("env", cut("process", even(1), even(1)), node(A100))
