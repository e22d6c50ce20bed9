"""Trainings of several policies, each with trainers and policy workers of its own."""

import json
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import two_cores

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.learners.rsl_rl import RslRlConfig, runner_config
from gmi_drl.config.policies import PolicySection
from gmi_drl.config.run_config import RunConfig, load_config
from gmi_drl.config.task_names import find_task
from gmi_drl.config.task_section import TaskSettings
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.files import load_yaml
from gmi_drl.launch import frozen_policies as module
from gmi_drl.launch.drop_lost_nodes import without_node
from gmi_drl.launch.frozen_policies import FrozenPolicy, frozen_policies
from gmi_drl.launch.job import resolve
from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
from gmi_drl.launch.task_info import sizes_of
from gmi_drl.launch.training import train
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.run import checkpoint
from gmi_drl.run.checkpoint import list_checkpoints, read_part
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics

PAGE = Path(__file__).parents[2] / "docs/guides/workers.md"
TAG = "pettingzoo:mpe2.simple_tag_v3"
CHASERS, RUNNERS = PolicySection(agents=("adversary_*",)), PolicySection(agents=("agent_0",), learner={"hidden": [16]})


def layout_of(*policies, num_env=8, served=True, **more):
    """An actor, and for each policy a policy worker and a trainer."""
    gmis = [GMI(id=0, roles=("simulator",) if served else ("simulator", "agent"), num_env=num_env, cores=(0,))]
    for policy in policies:
        for role in ("agent", "trainer") if served else ("trainer",):
            gmis.append(GMI(id=len(gmis), roles=(role,), cores=(0,), policy=policy))
    trainers = {gmi.policy: gmi.id for gmi in gmis if gmi.roles == ("trainer",)}
    settings = {
        "task": TAG,
        "template": "workers",
        "share_cores": True,
        "devices": (Device(kind="cpu", gmis=tuple(gmis)),),
        "groups": {f"trainers-{policy}": GmiGroup(members=(gmi,)) for policy, gmi in trainers.items()},
        "channels": Channels(max_lag=1),
        "streams": Streams() if served else None,
    }
    return Layout(**settings | more)


def config_of(policies, **more):
    learner = PPOConfig(hidden=(8,), horizon=30, minibatches=1)
    usual = {"iterations": 3, "checkpoint_every": 3, "hang_s": 60.0, "writers": (), "task": TaskSettings(pad=True)}
    return RunConfig(**usual | more, learner=learner, policies=policies)


def untrained(path, **task):
    """The folder of a run whose policy has learnt nothing."""
    config = config_of({}, task=TaskSettings(pad=True, **task))
    folder, spec = RunFolder(path), sizes_of(find_task(TAG), config.task)
    folder.create()
    folder.write_setup(layout_of(), config)
    folder.write_task(spec)
    replica = PPOReplica(spec, config, NoReduction(), sample_share=1.0, device=torch.device("cpu"), seed=0)
    checkpoint.write_part(checkpoint.draft(folder.checkpoints, 2), "learner", replica.learner_state())
    checkpoint.commit(folder.checkpoints, 2, checkpoint.NO_TRAINING | {"iteration": 2}, kept=1)
    return folder


@two_cores
def test_the_example_of_the_page_trains_beside_a_frozen_policy(tmp_path, command_line):
    """Two agents are chasers, one is a runner and one acts by another run: in two worlds they have 4, 2 and 2 rows."""
    files, page = [], PAGE.read_text().partition("## Several policies")[2]
    for name, text in zip(("layout", "config"), re.findall(r"```yaml\n(.*?)```", page, re.DOTALL), strict=True):
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(text)
    resolve(load_yaml(Layout, files[0]), load_config(files[1]), RunFolder(tmp_path / "as it is"))
    folder, frozen = RunFolder(tmp_path / "run"), untrained(tmp_path / "frozen")
    options = [
        word
        for setting in (
            "policies.chasers.agents=[adversary_0, adversary_1]",
            f"policies.frozen={{agents: [adversary_2], checkpoint: {frozen.path}}}",
            "learner.horizon=30",
            "learner.minibatches=1",
        )
        for word in ("--set", setting)
    ]
    code, _, err = command_line(
        "train", str(files[0]), "--config", str(files[1]), *options, "--iterations", "2", "--run-dir", str(folder.path)
    )
    rows = read_metrics(folder.metrics_file)
    assert code == 0 and "iteration 2/2" in err, err
    assert [row["iteration"] for row in rows] == [1, 2]
    for row in rows:
        assert list(row["policies"]) == ["chasers", "runners"]
        chasers, runners = row["policies"].values()
        assert chasers["env_steps"] == 2 * runners["env_steps"] == row["iteration"] * 30 * 4
        assert row["env_steps"] == chasers["env_steps"] + runners["env_steps"]
        assert chasers["reward_mean"] != runners["reward_mean"] and max(chasers["lag_max"], runners["lag_max"]) <= 1
        assert (chasers["rows"], runners["rows"]) == (4, 2)
    before = {name: learner_of(folder, name, 0) for name in ("chasers", "runners")}
    after = {name: learner_of(folder, name, 2) for name in ("chasers", "runners")}
    assert len(before["chasers"]) > len(before["runners"])  # which have a smaller network
    assert all((after[name] - before[name]).abs().max() > 1e-5 for name in before)
    code, out, _ = command_line("play", str(folder.path), "--num-env", "4", "--format", "json")
    assert code == 0 and json.loads(out)["iteration"] == 2
    code, _, err = command_line("train", "--resume", str(folder.path), "--iterations", "3")
    rows = read_metrics(folder.metrics_file)
    assert code == 0 and [row["iteration"] for row in rows] == [1, 2, 3], err
    assert rows[-1]["policies"]["runners"]["env_steps"] == 3 * 30 * 2
    for name in ("chasers", "runners"):
        assert (learner_of(folder, name, 3) - after[name]).abs().max() > 1e-6
    code, _, err = command_line("train", "--resume", str(folder.path), "--set", "policies.runners.agents=[agent_1]")
    assert code == 2 and "a run keeps its policies" in err


@two_cores
def test_what_several_policies_learn_is_the_same_where_their_actor_is_on_another_host(tmp_path):
    """No lag, and a single client: nothing is left to chance."""
    here = layout_of("chasers", "runners", channels=Channels(max_lag=0))
    actor, *others = here.gmis
    devices = [Device(node=node, kind="cpu", gmis=tuple(gmis)) for node, gmis in (("b", [actor]), ("a", others))]
    folders, config = [], config_of({"chasers": CHASERS, "runners": RUNNERS}, iterations=2, checkpoint_every=2)
    for name, layout in (("here", here), ("apart", here.model_copy(update={"devices": tuple(devices)}))):
        folders.append(RunFolder(tmp_path / name))
        folders[-1].create()
        supervisors = SubprocessSupervisors() if name == "apart" else None
        outcome = train(resolve(layout, config, folders[-1]), supervisors=supervisors)
        assert outcome.state == "done" and outcome.iteration == 2
    for policy in ("chasers", "runners"):
        first, second = (learner_of(folder, policy, 2) for folder in folders)
        assert torch.equal(first, second), policy


@two_cores
def test_policies_stop_in_the_same_iteration_though_the_launcher_has_not_read_their_newest_rows(tmp_path):
    folder, config = RunFolder(tmp_path / "run"), config_of({"chasers": CHASERS, "runners": RUNNERS}, iterations=10**6)
    folder.create()

    def on_row(row):
        if row["iteration"] == 2:
            time.sleep(2)  # while they go on
            os.kill(os.getpid(), signal.SIGTERM)

    config = config.model_copy(update={"checkpoint_every": 10**6})
    outcome = train(resolve(layout_of("chasers", "runners", served=False), config, folder), on_row=on_row)
    saved = {name: int(folder.policy(name).newest_checkpoint().name) for name in ("chasers", "runners")}
    assert outcome.state == "stopped" and set(saved.values()) == {outcome.iteration} and outcome.iteration > 4


def test_each_policy_sees_the_layout_that_is_left_of_nodes(tmp_path):
    here = layout_of("chasers", "runners")
    actor, *others = here.gmis
    another = actor.model_copy(update={"id": len(here.gmis)})
    devices = [Device(node=node, kind="cpu", gmis=gmis) for node, gmis in (("b", (actor,)), ("a", (*others, another)))]
    over_two = here.model_copy(update={"devices": tuple(devices)})
    job = resolve(over_two, config_of({"chasers": CHASERS, "runners": RUNNERS}), RunFolder(tmp_path / "run"))
    left = job.on(without_node(over_two, "b", job.task.agents))
    assert [policy.layout.groups["trainers"].members for policy in job.policies] == [(2,), (4,)]
    assert [policy.layout.groups["trainers"].members for policy in left.policies] == [(1,), (3,)]
    assert all(len(policy.layout.gmis) == len(left.layout.gmis) == 5 for policy in left.policies)


def test_a_node_reads_the_checkpoints_of_its_trainers_and_the_frozen_policies_of_its_actors(tmp_path):
    actor, *others = layout_of("chasers", "runners").gmis
    devices = [Device(node=node, kind="cpu", gmis=gmis) for node, gmis in (("b", (actor,)), ("a", tuple(others)))]
    frozen = PolicySection(agents=("adversary_0",), checkpoint=str(untrained(tmp_path / "frozen").path))
    chasers, folder = PolicySection(agents=("adversary_[12]",)), RunFolder(tmp_path / "run")
    config = config_of({"chasers": chasers, "frozen": frozen, "runners": RUNNERS})
    job = resolve(layout_of("chasers", "runners", devices=tuple(devices)), config, folder)
    assert job.restored_on("a") == [folder.policy("chasers"), folder.policy("runners")] and job.restored_on("b") == []
    assert job.frozen_on("a") == () and [one.name for one in job.frozen_on("b")] == ["frozen"]
    served = layout_of(template="workers", devices=tuple(devices[:1]), groups={}, channels=None)
    assert replace(job, layout=served).restored_on("b") == [folder]


def test_runs_that_cannot_act_are_refused_before_anything_starts(tmp_path):
    def resolved(run):
        frozen = PolicySection(agents=("agent_0",), checkpoint=str(run.path))
        config = config_of({"chasers": CHASERS, "runners": frozen})
        return resolve(layout_of("chasers", served=False), config, RunFolder(tmp_path / "run"))

    good = untrained(tmp_path / "good")
    assert [one.name for one in resolved(good).policies] == ["chasers"]
    with pytest.raises(UsageError, match=r"policies\.runners\.checkpoint: .* is not what .*other has learnt"):
        resolved(untrained(tmp_path / "other", agent_id=True))
    (only,) = list_checkpoints(good.checkpoints)
    several = good.policy("chasers").checkpoints
    only.rename(good.path / "elsewhere")
    with pytest.raises(UsageError, match=r"policies\.runners\.checkpoint: .*good has no complete checkpoint yet"):
        resolved(good)
    several.mkdir(parents=True)
    with pytest.raises(UsageError, match=r"policies\.runners\.checkpoint: .*good has several policies, chasers: name"):
        resolved(good)
    good.write_setup(layout_of(), RunConfig(learner=RslRlConfig(runner=runner_config(PPOConfig()))))
    with pytest.raises(UsageError, match="was trained by rsl_rl, whose policies do not act beside others"):
        resolved(good)


def test_a_run_goes_on_by_its_copy_of_a_frozen_policy_whose_run_is_gone(tmp_path):
    source, folder = untrained(tmp_path / "source"), RunFolder(tmp_path / "run")
    frozen = PolicySection(agents=("agent_0",), checkpoint=str(source.path))
    config, layout = config_of({"chasers": CHASERS, "runners": frozen}), layout_of("chasers", served=False)
    resolve(layout, config, folder).write_policies()
    size = frozen_policies(config.policies, folder)[0].size()
    expected = read_part(folder.frozen("runners").newest_checkpoint(), "learner")
    source.path.rename(tmp_path / "elsewhere")
    (again,) = resolve(layout, config, folder).frozen
    again.copy()
    assert again.source == folder.frozen("runners") and again.size() == size
    copied = read_part(folder.frozen("runners").newest_checkpoint(), "learner")
    assert all(torch.equal(copied[name], expected[name]) for name in expected)
    with pytest.raises(UsageError, match="source is no run folder"):
        resolve(layout, config, RunFolder(tmp_path / "another run"))


def test_a_run_that_removes_each_checkpoint_before_it_is_copied_is_named(tmp_path, monkeypatch):
    source = untrained(tmp_path / "source")
    monkeypatch.setattr(module, "COPY_S", 0.01)
    monkeypatch.setattr(RunFolder, "newest_checkpoint", lambda folder: folder.checkpoints / "9")
    with pytest.raises(MachineError, match=r"^policies\.a\.checkpoint: .*source removes each checkpoint before"):
        FrozenPolicy("a", source, RunFolder(tmp_path / "run" / "frozen" / "a")).copy()


def test_a_policy_is_exported_as_its_run_sees_the_task(tmp_path, command_line):
    """Without the run's `task.pad` the world's agents would differ."""
    run, file = untrained(tmp_path / "run"), tmp_path / "policy.pt2"
    code, _, err = command_line("export", str(run.path), "--to", "torch", "-o", str(file))
    assert code == 0 and file.exists(), err
    run.write_setup(layout_of("chasers", "runners"), config_of({"chasers": CHASERS, "runners": RUNNERS}))
    code, _, err = command_line("export", str(run.path), "--to", "torch", "-o", str(file))
    assert code == UsageError.exit_code and "has several policies: name the folder of one" in err


def learner_of(folder, policy, iteration):
    """The parameters of a policy after an iteration."""
    (saved,) = [one for one in list_checkpoints(folder.policy(policy).checkpoints) if int(one.name) == iteration]
    return read_part(saved, "learner")["parameters"]


@pytest.mark.parametrize(
    ("policies", "named", "message"),
    [
        ({"chasers": CHASERS}, ("chasers",), "1 agent of pettingzoo:mpe2.simple_tag_v3 has no policy: agent_0"),
        (
            {"chasers": CHASERS, "runners": PolicySection(agents=("*_0", "runner_*"))},
            ("chasers", "runners"),
            "policies.runners.agents: 'runner_*' matches none of adversary_0, adversary_1, adversary_2, agent_0; "
            "adversary_0 is an agent of chasers and runners: give it one policy",
        ),
        (
            {"chasers": CHASERS, "runners": RUNNERS},
            ("chasers",),
            "chasers, runners learn, and the layout has trainers of",
        ),
        ({}, ("chasers",), "the layout has the policies chasers: name their agents in policies of config.yaml"),
        (
            {"chasers": CHASERS, "runners": PolicySection(agents=("agent_0",), learner={"horizon": 15})},
            ("chasers", "runners"),
            "need the same learner.horizon, these have {'chasers': 30, 'runners': 15}",
        ),
        (
            {"chasers": CHASERS, "runners": PolicySection(agents=("agent_0",), checkpoint="nowhere")},
            ("chasers",),
            "policies.runners.checkpoint: nowhere is no run folder",
        ),
        (
            {"all": PolicySection(agents=("*",), checkpoint="nowhere")},
            ("all",),
            "every policy has a checkpoint, so none learns: leave that of one out",
        ),
        (
            {"chasers": CHASERS, "runners": PolicySection(agents=("agent_0",), learner={"horizn": 15})},
            ("chasers", "runners"),
            "horizn",
        ),
    ],
    ids=[
        "an agent without",
        "two and none",
        "no trainer",
        "not in the configuration",
        "horizon",
        "no run",
        "none learns",
        "unknown key",
    ],
)
def test_what_does_not_fit_is_refused_before_anything_starts(tmp_path, policies, named, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        resolve(layout_of(*named), config_of(policies), RunFolder(tmp_path / "run"))


def test_most_rows_is_compared_with_the_rows_of_each_policy(tmp_path):
    """Of two worlds of four agents chasers have six rows, and runners two."""
    config, folder = config_of({"chasers": CHASERS, "runners": RUNNERS}), RunFolder(tmp_path / "run")

    def resolved(most_rows):
        return resolve(layout_of("chasers", "runners", streams=Streams(most_rows=most_rows)), config, folder)

    assert len(resolved(6).policies) == 2
    with pytest.raises(UsageError, match=r"^policy chasers: streams.most_rows is 5, and one request has 6: raise it"):
        resolved(5)
    with pytest.raises(UsageError, match=r"has 6: .*; policy runners: streams.most_rows is 1, and one request has 2: "):
        resolved(1)


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    policies = {"chasers": CHASERS, "runners": PolicySection(agents=("agent_0", "runner_*"))}
    config, streams = config_of(policies, hang_s=0.1, eval_every=2), Streams(fewest_actors=5, wait_ms=200)
    with pytest.raises(UsageError) as refused:
        resolve(layout_of("chasers", num_env=6, streams=streams), config, RunFolder(tmp_path / "run"))
    assert str(refused.value).split("; ") == [
        "streams.fewest_actors is 5, and the layout has 1 actor: lower it, or add actors",
        "streams.wait_ms is 200, and hang_s 0.1: let requests wait for less",
        f"{TAG} has 4 agents in each world, and each is an environment: GMI 0 has 6 environments: "
        "give --num-env 4 or 8",
        "eval_every plays one policy, and this run has several: leave it out",
        "policies chasers, runners learn, and the layout has trainers of chasers: "
        "give each that learns a `policy` of its own in a layout of workers",
        "policies.runners.agents: 'runner_*' matches none of adversary_0, adversary_1, adversary_2, agent_0",
    ]


def test_layouts_that_do_not_give_each_policy_its_workers_are_refused(tmp_path):
    layout = layout_of("chasers", "runners")
    *others, last = layout.gmis
    device = layout.devices[0].model_copy(update={"gmis": (*others, last.model_copy(update={"policy": None}))})
    config, folder = config_of({"chasers": CHASERS, "runners": RUNNERS}), RunFolder(tmp_path / "run")
    with pytest.raises(UsageError, match=r"give trainers and policy workers a `policy`.*GMIs \[4\] have none"):
        resolve(layout.model_copy(update={"devices": (device,)}), config, folder)
    with pytest.raises(UsageError, match=r"the groups of these policies are trainers-chasers, trainers-runners"):
        resolve(layout.model_copy(update={"groups": {"trainers": GmiGroup(members=(2, 4))}}), config, folder)
    with pytest.raises(UsageError, match=r"TCG_EX has one policy, GMIs \[1, 2, 3, 4\] name one"):
        resolve(layout.model_copy(update={"template": "TCG_EX"}), config, folder)
