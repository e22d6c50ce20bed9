import shutil
from pathlib import Path

import pytest

from gmi_drl.files import load_yaml
from gmi_drl.layout.layout import Layout

EXAMPLES = Path(__file__).parents[2] / "examples"
PROFILE = ["--profile", "examples/nodes/invented.json"]


@pytest.fixture
def examples(tmp_path):
    for name in ("nodes", "clusters"):
        shutil.copytree(EXAMPLES / name, tmp_path / "examples" / name)


def test_a_plan_for_two_machines(command_line, tmp_path, examples):
    code, out, err = command_line("plan", "--cluster", "examples/clusters/two-h100.yaml", *PROFILE)
    assert code == 0, err
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert (layout.nodes == ("h100-x8-0", "h100-x8-1") and "h100-x8-1" in out) or "more devices" in out
    assert "the layout takes 448 of 448 cores" in out
    assert out.splitlines()[-1] == "Wrote layout.yaml. Next: gmi-drl train layout.yaml --launcher ray"


def test_one_machine_is_named_where_the_network_is_too_slow(command_line, tmp_path, examples):
    slow = "network: {gbit_per_s: 0.01, round_trip_ms: 100}\nnodes: [{count: 2, file: examples/nodes/h100-x8.yaml}]\n"
    (tmp_path / "slow.yaml").write_text(slow)
    code, out, err = command_line("plan", "--cluster", "slow.yaml", *PROFILE, "--price-per-gpu-hour", 2)
    assert code == 0, err
    assert "16.00 an hour for 8 GPUs" in out and "of 224 cores" in out, "what the other machine has costs nothing"
    assert out.splitlines()[-1] == "Wrote layout.yaml. Next, on h100-x8: gmi-drl train layout.yaml"


def test_nodes_of_two_and_four_cores_get_two_and_four_gmis(command_line, tmp_path):
    kinds = "".join(f"- node: {{name: n{cores}, cpu: {{cores: {cores}, memory_gib: 8}}}}\n" for cores in (2, 4))
    (tmp_path / "unlike.yaml").write_text(f"network: {{gbit_per_s: 10, round_trip_ms: 0.1}}\nnodes:\n{kinds}")
    code, _, err = command_line("plan", "--cluster", "unlike.yaml", "--num-env", 64)
    assert code == 0, err
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert [len(layout.part_on(node)[1]) for node in ("n2", "n4")] == [2, 4]
    assert layout.groups["trainers"].reduction == "HAR" and layout.num_env == 6 * 64


def test_machines_are_cut_evenly_where_nothing_was_measured(command_line, tmp_path, examples):
    for budget in (), ("--budget", 0):  # the same
        code, _, err = command_line("plan", "--cluster", "examples/clusters/two-h100.yaml", "--num-env", 64, *budget)
        layout = load_yaml(Layout, tmp_path / "layout.yaml")
        assert code == 0, err
        assert len(layout.devices) == 16 and layout.num_env == 16 * 64


@pytest.mark.parametrize("measured", [(), PROFILE], ids=["by the layout", "by a profile"])
def test_processors_whose_gmis_cannot_sum_over_hosts_are_refused_in_words(command_line, tmp_path, examples, measured):
    node = tmp_path / "examples/nodes/h100-x8.yaml"
    node.write_text(node.read_text().replace("cpu: {", "cpu: {architecture: riscv64, "))
    code, _, err = command_line("plan", "--cluster", "examples/clusters/two-h100.yaml", *measured)
    assert code == 3 and "processors of x86_64" in err and "not on riscv64: plan for one host (--node)" in err
    node.write_text(node.read_text().replace("riscv64", "aarch64"))
    code, _, err = command_line("plan", "--cluster", "examples/clusters/two-h100.yaml", *measured)
    assert code == 0, err
    assert load_yaml(Layout, tmp_path / "layout.yaml").groups["trainers"].reduction in ("HAR", "SHARD")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--node", "examples/nodes/mixed.yaml"], "--node: --cluster names the nodes: leave it out"),
        (["--gpus", 2], "--gpus: --cluster names the nodes"),
        (["--budget", 5], "--budget: the machine of examples/clusters/two-h100.yaml cannot be measured here"),
        (["--format", "env"], "of one machine: leave --cluster out, or take kubernetes or slurm"),
    ],
)
def test_what_contradicts_a_cluster_is_refused(command_line, examples, options, said):
    code, _, err = command_line("plan", "--cluster", "examples/clusters/two-h100.yaml", *options)
    assert code == 2 and said in err


def test_unlike_machines_are_planned_for_workers_by_a_profile_of_each_kind(command_line, tmp_path):
    given = ("--cluster", EXAMPLES / "clusters" / "srl.yaml", "--template", "workers")
    profiles = [
        word for name in ("a100", "rtx3090") for word in ("--profile", EXAMPLES / "planning" / f"workers-{name}.json")
    ]
    code, out, err = command_line("plan", *given, *profiles)
    assert code == 0, err
    told = " ".join(out.replace("│", " ").split())
    assert "12000 actors" in told and "32 trainers" in told and "the first to be full first" in told
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert len(layout.nodes) == 68 and len(layout.with_role("trainer")) == 32
    code, out, err = command_line("plan", *given, *profiles, "--format", "slurm")
    assert code == 0 and out.count("#SBATCH hetjob") == 1 and "8 x trainer" in out, err
    for option, said in (
        (("--num-env", 4), "the profiles decide that"),
        (("--price-per-gpu-hour", 2), "prices are of"),
    ):
        code, _, err = command_line("plan", *given, *profiles, *option)
        assert code == 2 and said in err


def test_several_profiles_are_of_workers_alone(command_line, tmp_path, examples):
    code, _, err = command_line("plan", "--cluster", "examples/clusters/two-h100.yaml", *PROFILE, *PROFILE)
    assert code == 2 and "one profile has all points of TCG_EX: give one" in err


def test_a_file_that_is_none_is_refused(command_line, tmp_path):
    (tmp_path / "c.yaml").write_text("nodes: []\n")
    code, _, err = command_line("plan", "--cluster", "c.yaml")
    assert code == 2 and "network" in err
