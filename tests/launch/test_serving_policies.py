"""Several policies are served as `play` plays them: they answer requests, or act beside their actor."""

import json
import shutil
from functools import cache
from pathlib import Path

import pytest
import torch
from conftest import two_cores

from gmi_drl.cli.local_task import open_task
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.policies import PolicySection
from gmi_drl.config.run_config import RunConfig, policy_config
from gmi_drl.config.task_names import find_task
from gmi_drl.config.task_section import TaskSettings
from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml
from gmi_drl.launch.frozen_policies import FrozenPolicy
from gmi_drl.launch.policies import served_policies
from gmi_drl.launch.serving import servable, serve
from gmi_drl.launch.task_info import sizes_of
from gmi_drl.layout.channels import Streams
from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.roles.seeds import serving_seed
from gmi_drl.roles.serving.load_player import load_player
from gmi_drl.roles.serving.policies_player import rows_of
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.run import checkpoint
from gmi_drl.run.folder import RunFolder
from gmi_drl.templates import template_for

TAG, STEPS, NUM_ENV = "pettingzoo:mpe2.simple_tag_v3", 60, 8
FROZEN_ROWS, CHASERS_ROWS, RUNNERS_ROWS = (0,), (1, 2), (3,)
ASKS, ACTS, SERVES = ("simulator",), ("simulator", "agent"), ("agent",)


def config_of(policies):
    learner = PPOConfig(hidden=(8,), horizon=30, minibatches=1)
    return RunConfig(hang_s=60.0, task=TaskSettings(pad=True), learner=learner, policies=policies)


@cache
def task_sizes():
    return sizes_of(find_task(TAG), TaskSettings(pad=True))


def layout_of(*kinds, ring=1, **more):
    """GMIs of roles, or of a policy that has a policy worker."""
    gmis = tuple(
        GMI(id=number, roles=SERVES, policy=kind, cores=(0,))
        if isinstance(kind, str)
        else GMI(id=number, roles=kind, num_env=NUM_ENV * ring, ring=ring, cores=(0,))
        for number, kind in enumerate(kinds)
    )
    settings = {
        "task": TAG,
        "template": "workers",
        "share_cores": True,
        "devices": (Device(kind="cpu", gmis=gmis),),
        "streams": Streams() if any(isinstance(kind, str) for kind in kinds) else None,
    }
    return Layout(**settings | more)


def save(folder, config, seed, iteration):
    """Save a policy of random weights."""
    folder.create()
    folder.write_setup(layout_of(ACTS), config)
    folder.write_task(task_sizes())
    replica = PPOReplica(task_sizes(), config, NoReduction(), sample_share=1.0, device=torch.device("cpu"), seed=seed)
    checkpoint.write_part(checkpoint.draft(folder.checkpoints, iteration), "learner", replica.learner_state())
    checkpoint.commit(folder.checkpoints, iteration, checkpoint.NO_TRAINING | {"iteration": iteration}, kept=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two policies that have learnt, of unlike networks, and of a frozen one, which is named first."""
    path = tmp_path_factory.mktemp("runs")
    frozen, folder = RunFolder(path / "frozen"), RunFolder(path / "run")
    save(frozen, config_of({}), 7, 2)
    config = config_of(
        {
            "frozen": PolicySection(agents=("adversary_0",), checkpoint=str(frozen.path)),
            "chasers": PolicySection(agents=("adversary_[12]",)),
            "runners": PolicySection(agents=("agent_0",), learner={"hidden": [16]}),
        }
    )
    folder.create()
    folder.write_setup(layout_of(ACTS), config)
    folder.write_task(task_sizes())
    for seed, name in enumerate(("chasers", "runners")):
        save(folder.policy(name), policy_config(config, name), seed, 4 + seed)
    return folder


def played(run, seed):
    """The episodes that `play --stochastic` plays."""
    config = run.read_setup()[1]
    with open_task(TAG, NUM_ENV, seed, settings=config.task, films=False) as task:
        player = load_player(run, config, task, seed=seed, stochastic=True)
        for _ in range(STEPS):
            player.step()
        rows = {
            "frozen": rows_of(task, FROZEN_ROWS),
            "chasers": rows_of(task, CHASERS_ROWS),
            "runners": rows_of(task, RUNNERS_ROWS),
        }
    return {name: [episode for episode in player.finished if episode.env in own.tolist()] for name, own in rows.items()}


@two_cores
def test_policies_play_what_play_does_whoever_acts(run, command_line, tmp_path):
    """The first actor asks a policy worker for each policy, the second acts for all by agents of its own."""
    (tmp_path / "layout.yaml").write_text(dump_yaml(layout_of(ASKS, ACTS, "chasers", "runners")))
    options = ("--steps", str(STEPS), "--seed", "3", "--stochastic", "--format", "json")
    code, out, err = command_line("serve", str(run.path), str(tmp_path / "layout.yaml"), *options)
    assert code == 0, err
    told = json.loads(out)
    assert list(told["gmis"]) == ["0", "1"] and told["iteration"] == 4
    both = [played(run, serving_seed(3, actor)) for actor in range(2)]
    for gmi, episodes in zip(told["gmis"].values(), both, strict=True):
        everyone = [one for own in episodes.values() for one in own]
        assert gmi["steps"] == STEPS and gmi["episodes"] == len(everyone) > 0
        assert gmi["return_sum"] == pytest.approx(sum(one.total for one in everyone), rel=1e-3, abs=1e-3)
    assert told["gmis"]["0"]["sync_s"] > 0 == told["gmis"]["1"]["sync_s"]
    assert list(told["policies"]) == ["chasers", "runners", "frozen"]
    for name, numbers in told["policies"].items():
        own = [one for episodes in both for one in episodes[name]]
        assert numbers["episodes"] == len(own) and numbers["episode_length_mean"] == own[0].length
        mean = sum(one.total for one in own) / len(own)
        assert numbers["return_mean"] == pytest.approx(mean, rel=1e-3, abs=1e-3)


def test_a_run_is_played_and_served_with_its_own_copies_of_frozen_policies(run, tmp_path):
    moved = RunFolder(shutil.copytree(run.path, tmp_path / "moved"))
    config = moved.read_setup()[1]
    frozen = config.policies["frozen"]
    FrozenPolicy("frozen", RunFolder(Path(frozen.checkpoint)), moved.frozen("frozen")).copy()
    gone = config.policies | {"frozen": frozen.model_copy(update={"checkpoint": "gone"})}
    moved.write_setup(layout_of(ACTS), config.model_copy(update={"policies": gone}))
    assert played(moved, 3) == played(run, 3)
    served = servable(layout_of(ACTS), moved)[1]
    assert Path(served.policies["frozen"].checkpoint) == moved.frozen("frozen").path
    assert served.policies["chasers"] == config.policies["chasers"]
    assert len(served_policies(layout_of(ACTS), served, RunFolder(tmp_path), task_sizes())) == 2


def test_the_iteration_is_that_of_the_policy_that_was_trained_least(run):
    config = run.read_setup()[1]
    with open_task(TAG, NUM_ENV, 0, settings=config.task, films=False) as task:
        assert load_player(run, config, task).iteration == 4


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (layout_of(ASKS, "chasers"), r"policies chasers, runners have learnt.* policy workers of chasers: give each"),
        (layout_of(ASKS, "chasers", "runners", "others"), "policy workers of chasers, runners, others: give each"),
        (layout_of(ACTS, template="TCG"), "serve it on a layout by `workers`, not by TCG"),
    ],
    ids=["one is missing", "one too many", "no workers"],
)
def test_layouts_for_other_policies_are_refused(run, layout, message):
    with pytest.raises(UsageError, match=message):
        serve(layout, run, steps=2)


def test_layouts_of_policies_and_runs_of_one_do_not_fit(tmp_path):
    with pytest.raises(UsageError, match="the run has one policy, and the layout names chasers: leave `policy` out"):
        served_policies(layout_of(ASKS, "chasers"), config_of({}), RunFolder(tmp_path), task_sizes())
    nameless = layout_of(ASKS, "chasers").gmis[1].model_copy(update={"id": 2, "policy": None})
    mixed = layout_of(ASKS, "chasers")
    devices = (mixed.devices[0].model_copy(update={"gmis": (*mixed.gmis, nameless)}),)
    with pytest.raises(UsageError, match=r"give trainers and policy workers a `policy`.* GMIs \[2\] have none"):
        template_for(mixed.model_copy(update={"devices": devices}), "serving")


def test_experience_of_several_policies_is_refused(run, tmp_path):
    with pytest.raises(UsageError, match="several policies write no experience"):
        serve(layout_of(ACTS), run, steps=2, experience=tmp_path / "seen")
