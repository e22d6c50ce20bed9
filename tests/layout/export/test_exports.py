import pytest
from layouts import A100, backends, cut, even, exported, node  # noqa: F401

from gmi_drl.errors import UsageError
from gmi_drl.files import parse
from gmi_drl.layout.export import FORMATS, export, require_sayable
from gmi_drl.layout.layout import Layout
from gmi_drl.yaml_text import read_yaml

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


WORKERS = """
version: 2
task: ant
template: workers
devices:
- {node: a, kind: cpu, gmis: [{id: 0, roles: [simulator], num_env: 4, cores: [0]}]}
- {node: a, kind: gpu, gmis: [{id: 1, roles: [trainer], cores: [1]}]}
- {node: b, kind: cpu, gmis: [{id: 2, roles: [simulator], num_env: 4, cores: [0]}, {id: 3, roles: [agent], cores: [1]}]}
- {node: c, kind: cpu, gmis: [{id: 4, roles: [simulator], num_env: 4, cores: [0]}, {id: 5, roles: [agent], cores: [1]}]}
groups: {trainers: {members: [1]}}
"""


def test_machines_of_several_kinds_are_parts_of_one_job_and_told_by_their_roles():
    layout = parse(Layout, read_yaml(WORKERS), "workers")
    script = export("slurm", layout, node(A100))
    first, second = script.split("#SBATCH hetjob\n")
    assert "--nodes=1\n" in first and "--gpus-per-node=1\n" in first and "1 x simulator, 1 x trainer" in first
    assert "--nodes=2\n" in second and "gpus" not in second and "(b to c), on each 1 x simulator, 1 x agent" in second
    pods = read_yaml(export("kubernetes", layout, node(A100)))["workerGroupSpecs"]
    assert [(pod["replicas"], pod["resources"]["limits"]) for pod in pods] == [
        (1, {"cpu": 2, "nvidia.com/gpu": 1}),
        (2, {"cpu": 2}),
    ]
    with pytest.raises(UsageError, match="of one machine: leave --cluster out, or take kubernetes or slurm"):
        export("env", layout, node(A100))


def test_roles_of_one_machine_are_told():
    part, _ = parse(Layout, read_yaml(WORKERS), "workers").part_on("a")
    assert "# GMIs: 1 x simulator, 1 x trainer" in export("slurm", part, node(A100))
    assert "and for cpu: 2" in export("kubernetes", part, node(A100))
