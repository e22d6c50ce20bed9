"""The examples of docs/guides/several_machines.md, as far as parsers go: neither Slurm nor Kubernetes is here."""

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from gmi_drl.cli.commands import load
from gmi_drl.files import load_yaml
from gmi_drl.launch.ray.placement import shares_of
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.pools import pools_of
from gmi_drl.templates import DECOUPLED

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "cluster"
SLURM = (EXAMPLES / "slurm.sh").read_text()
JOB = yaml.safe_load((EXAMPLES / "kuberay.yaml").read_text())
PAGE = (ROOT / "docs" / "guides" / "several_machines.md").read_text()
SHARES = shares_of(load_yaml(Layout, EXAMPLES / "layout.yaml"))


def lines_with(text, word):
    """The commands that begin with a word, their continuations joined."""
    joined = re.sub(r"\\\n\s*", "", text)
    return [found for found in re.findall(rf"^(?:\S*\$ |srun .*?)?({word} .*?)(?: &)?$", joined, re.MULTILINE)]


def parsed(command, line):
    """A command line that its own parser takes: options by name."""
    return command.make_context(line[0], list(line[1:])).params


def groups():
    cluster = JOB["spec"]["rayClusterSpec"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def test_slurm_takes_a_node_for_each_of_the_layout():
    subprocess.run(["bash", "-n"], input=SLURM, text=True, check=True)
    asked = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(\S+))?$", SLURM, re.MULTILINE))
    known = {"job-name", "nodes", "ntasks-per-node", "cpus-per-task", "exclusive", "time"}
    assert asked.keys() == known
    assert int(asked["nodes"]) == len(SHARES) and asked["ntasks-per-node"] == "1"
    assert all(share.cpus <= int(asked["cpus-per-task"]) for share in SHARES.values())


def test_kuberay_has_a_pod_for_each_node_of_the_layout():
    assert (JOB["apiVersion"], JOB["kind"]) == ("ray.io/v1", "RayJob")
    workers = JOB["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert 1 + sum(group["replicas"] for group in workers) == len(SHARES)
    for group in groups():
        (container,) = group["template"]["spec"]["containers"]
        cpus = int(group["rayStartParams"]["num-cpus"])
        assert container["resources"]["limits"] == container["resources"]["requests"]
        assert max(share.cpus for share in SHARES.values()) <= cpus <= container["resources"]["limits"]["cpu"]
        volumes = {volume["name"] for volume in group["template"]["spec"].get("volumes", ())}
        assert {mount["name"] for mount in container.get("volumeMounts", ())} == volumes


def test_ray_knows_all_options_that_it_is_started_with():
    scripts = pytest.importorskip("ray.scripts.scripts", reason="needs the extra [ray]")
    texts = (SLURM.replace("$cpus", "2"), PAGE)
    started = [shlex.split(line)[2:] for text in texts for line in lines_with(text, "ray start")]
    assert len(started) == 4
    for arguments in started:
        parsed(scripts.start, ["start", *arguments])
    known = {option.removeprefix("--") for parameter in scripts.start.params for option in parameter.opts}
    for group in groups():
        assert group["rayStartParams"].keys() <= known
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())


def test_our_commands_have_all_their_options():
    entrypoint = JOB["spec"]["entrypoint"]
    commands = [
        *lines_with(SLURM, "gmi-drl"),
        *lines_with(PAGE, "gmi-drl"),
        entrypoint,
    ]
    assert len(commands) >= 5
    launchers = []
    for line in commands:
        name, *arguments = shlex.split(line)[1:]
        launchers.append(parsed(load(name), [name, *arguments]).get("launcher"))
    assert launchers.count("ray") == 5


@pytest.mark.parametrize(("name", "pools"), [("decoupled", {"a": 3}), ("pools", {"a": 1, "b": 1})])
def test_layouts_with_agents_and_trainers_apart_are_by_their_template(name, pools):
    layout = load_yaml(Layout, EXAMPLES / f"{name}.yaml")
    assert DECOUPLED.check(layout) == [] and f"examples/cluster/{name}.yaml" in PAGE
    assert {pool.node: len(pool.agents) for pool in pools_of(layout)} == pools


def test_an_option_that_is_none_is_seen():
    with pytest.raises(click.NoSuchOption):
        parsed(load("train"), ["train", "--launchers", "ray"])
