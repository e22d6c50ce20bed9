import pytest
import yaml

from gmi_drl.files import load_yaml
from gmi_drl.layout.export import FORMATS
from gmi_drl.layout.layout import Layout
from tests.gmi.nvml.fake import FakeGpu

NODE = """
version: 1
name: dgx-a100
gpus: {model: A100-SXM4-40GB, count: 8}
cpu: {cores: 128, memory_gib: 1000}
"""


@pytest.fixture
def node(tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    return ("--node", "node.yaml", "--gmis-per-gpu", 3)


def test_a_format_is_alone_on_stdout_and_the_layout_is_written(node, command_line, tmp_path):
    code, out, err = command_line("plan", *node, "--format", "kubernetes")
    assert code == 0 and yaml.safe_load(out)["sharing"]["timeSlicing"]["resources"][0]["replicas"] == 3
    assert err == "Wrote layout.yaml\n"
    assert len(load_yaml(Layout, tmp_path / "layout.yaml").gmis) == 24


def test_every_format_is_an_option(node, command_line):
    for name in FORMATS:
        code, out, err = command_line("plan", *node, "--format", name)
        assert (code, bool(out)) == ((0, True) if "process" in FORMATS[name].backends else (2, False)), err
    code, _, err = command_line("plan", "--format", "pbs")
    assert code == 2 and "mig-parted" in err


def test_what_cannot_be_said_is_refused_before_anything_is_measured_or_written(command_line, tmp_path):
    code, out, err = command_line("plan", "--format", "kubernetes")
    assert (code, out) == (2, "") and "this layout is on cores: take slurm or env" in " ".join(err.split())
    assert not (tmp_path / "layout.yaml").exists()


def test_what_is_told_to_people_is_not_for_other_tools(node, command_line):
    code, out, err = command_line("plan", *node, "--format", "env", "--explain")
    assert (code, out) == (2, "") and "--format env is one layout for another tool" in " ".join(err.split())


@pytest.mark.parametrize("variable", ["1", "GPU-1"])
def test_tools_get_the_gpus_that_are_visible_and_no_hidden_one(variable, command_line, fake_nvml, monkeypatch):
    fake_nvml.add(FakeGpu(name="NVIDIA H100 80GB HBM3"), FakeGpu(name="NVIDIA H100 80GB HBM3"))
    uuid = fake_nvml.uuid(1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid if variable != "1" else variable)
    here = ("plan", "--budget", 0, "--gmis-per-gpu", 2, "--backend")
    code, script, err = command_line(*here, "mig", "--format", "nvidia-smi")
    assert code == 0, err
    named = [line.split("-i ")[1].split()[0] for line in script.splitlines() if line.startswith("nvidia-smi")]
    assert named == [uuid] * 2 and " -i 0 " not in script
    assert yaml.safe_load(command_line(*here, "mig", "--format", "mig-parted")[1])["mig-configs"]["gmi-drl"][0][
        "devices"
    ] == [1]
    assert f"CUDA_VISIBLE_DEVICES={uuid}\n" in command_line(*here, "process", "--format", "env")[1]
    assert f"# Its daemon: CUDA_VISIBLE_DEVICES={uuid} " in command_line(*here, "mps", "--format", "env")[1]
