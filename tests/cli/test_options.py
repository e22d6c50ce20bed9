"""Every option of every command is used, or refused where it would have no effect."""

import sys

import pytest
import rich_click as click
from conftest import tiny_config, tiny_layout

from gmi_drl.cli.commands import ENTRIES, load
from gmi_drl.config.learners import LEARNERS
from gmi_drl.files import dump_yaml
from gmi_drl.run import checkpoint
from gmi_drl.run.folder import RunFolder

PYTHON = ("--simulator-python", sys.executable)
NODE, POINTS = ("--node", "node.yaml"), ("--profile", "points.json")
WHAT_IF = ("--what-if", "node.yaml", *POINTS)
EVENLY = ("--budget", "0")

IDLE = {
    "train": {
        "--task": [("layout.yaml --task ant", "--task: the layout file decides that")],
        "--env-arg": [
            ("--env-arg a=1", "--env-arg needs a --task"),
            ("--task ant --env-arg a=1", "ant is a task of gmi-drl and takes no arguments"),
        ],
        "--algo": [("--resume RUN --algo a3c", "the run learns by ppo: for another --algo")],
        "--config": [("--resume RUN --config config.yaml", "--config is for a new run")],
        "--template": [
            ("layout.yaml --template decoupled", "--template: the layout file decides that"),
            ("--resume RUN --template decoupled", "the layout has the template TCG_EX"),
        ],
        "--iterations": [("--iterations 2 --set iterations=3", "iterations is given twice, as 2 and as 3")],
        "--num-env": [("layout.yaml --num-env 8", "--num-env: the layout file decides that")],
        "--gmis-per-gpu": [("layout.yaml --gmis-per-gpu 2", "--gmis-per-gpu: the layout file decides that")],
        "--seed": [("--resume RUN --seed 5", "seed: the run has 0")],
        "--run-dir": [("--resume RUN --run-dir new", "--run-dir and --resume cannot be given together")],
        "--rsl-rl-config": [
            ("--rsl-rl-config agent.yaml", "--rsl-rl-config is for --algo rsl_rl, not for ppo"),
            ("--resume RUN --rsl-rl-config agent.yaml", "--rsl-rl-config is for a new run"),
        ],
        "--set": [
            ("--resume RUN --set learner.init_std=0.9", "learner.init_std: the run has 0.3"),
            ("--set learner.schedule=fixed --set learner.desired_kl=1", "no effect without schedule adaptive"),
        ],
        "--apply-mig": [("--apply-mig", "--apply-mig is for layouts cut by mig or mig-ci")],
        "--simulator-python": [
            (PYTHON, "--simulator-python is for isaacgym:TASK, not for ant"),
            (("layout.yaml", *PYTHON), "not for ant"),
            (("no_task.yaml", *PYTHON), "is for isaacgym:TASK, and the layout names no task: leave it out"),
            (("--resume", "RUN", *PYTHON), "not for ant"),
            (("--task", "isaacgym:Ant", "--launcher", "ray", *PYTHON), "is for GMIs of this machine, not for nodes"),
        ],
    },
    "plan": {
        "--env-arg": [("--env-arg a=1", "ant is a task of gmi-drl and takes no arguments")],
        "--set": [
            ("--set task.stack=2", "ant has no task.stack (it takes none of the section `task`): leave it out"),
            ("--set learner.gamma=0.9", "--set learner.gamma=0.9: a plan is for the usual settings, but for task.*"),
        ],
        "--template": [
            ((*WHAT_IF, "--template", "serving"), "--template TCG: a profile measures training by GMIs that are alike"),
            (
                (*WHAT_IF, "--template", "decoupled"),
                "--template decoupled: a profile measures training by GMIs",
            ),
        ],
        "--algo": [
            ("--template serving --algo ppo", "--algo: --template TCG learns nothing"),
            ((*EVENLY, "--algo", "rsl_rl"), "--algo: nothing is measured, and an even cut is the same for all"),
        ],
        "--num-env": [((*POINTS, "--num-env", 8), "--num-env: the --profile decides that")],
        "--gpus": [
            ("--cluster cluster.yaml --gpus 1", "--gpus: --cluster names the nodes"),
            ((*WHAT_IF, "--gpus", 1), "--gpus: --what-if names every machine"),
        ],
        "--gmis-per-gpu": [((*POINTS, "--gmis-per-gpu", 2), "--gmis-per-gpu: the --profile decides that")],
        "--share-cores": [
            ("--share-cores", "--share-cores: the speed of GMIs that share cores says nothing"),
            ((*POINTS, "--share-cores"), "--share-cores: GMIs of a --profile had cores of their own"),
        ],
        "--keep-batch": [
            ("--template serving --keep-batch 64", "--keep-batch: --template TCG learns nothing"),
            ("--template decoupled --keep-batch 64", "--keep-batch: the GMIs of decoupled differ"),
            ((*EVENLY, "--keep-batch", 64), "--keep-batch: nothing is measured"),
        ],
        "--objective": [
            ("--template serving --objective steps", "--objective: --template TCG learns nothing"),
            ("--template decoupled --objective steps", "--objective: the GMIs of decoupled differ"),
            (
                "--keep-batch 64 --objective steps",
                "--objective: with --keep-batch every layout has the same samples",
            ),
            ((*EVENLY, "--objective", "steps"), "--objective: nothing is measured"),
            ((*WHAT_IF, "--objective", "steps"), "--objective: --what-if compares steps/s"),
        ],
        "--budget": [
            ((*POINTS, "--budget", 5), "--budget: --profile measures nothing"),
            ((*NODE, "--budget", 5), "--budget: the machine of node.yaml cannot be measured here"),
        ],
        "--fresh": [
            ((*POINTS, "--fresh"), "--fresh: --profile measures nothing"),
            ((*EVENLY, "--fresh"), "--fresh: nothing is measured, so nothing is measured anew"),
        ],
        "--profile": [
            ((*POINTS, "--template", "serving"), "--profile: a profile measures training, not serving"),
            ((*POINTS, "--template", "decoupled"), "--profile: the GMIs of decoupled differ"),
        ],
        "--node": [
            ((*NODE, "--cluster", "cluster.yaml"), "--node: --cluster names the nodes"),
            ((*WHAT_IF, *NODE), "--node: --what-if names every machine"),
        ],
        "--cluster": [
            ((*WHAT_IF, "--cluster", "cluster.yaml"), "--cluster: --what-if names every machine"),
            ("--cluster cluster.yaml --format env", "--format env tells the environment of each GMI of one machine"),
        ],
        "--what-if": [("--what-if node.yaml --format env", "--what-if: --format env is one layout for another tool")],
        "--price-per-gpu-hour": [
            (
                ("--template", "workers", *POINTS, "--price-per-gpu-hour", 2),
                "--price-per-gpu-hour: prices are of plans",
            ),
            ((*EVENLY, "--price-per-gpu-hour", 2), "--price-per-gpu-hour: nothing is measured"),
            ("--price-per-gpu-hour 2 --format env", "--price-per-gpu-hour: --format env is one layout"),
        ],
        "--explain": [
            ((*EVENLY, "--explain"), "--explain: nothing is measured"),
            ("--template decoupled --explain", "--explain: its formulas are for equal GMIs"),
            ((*WHAT_IF, "--explain"), "--explain: --what-if compares and plans nothing"),
            ("--explain --format env", "--explain: --format env is one layout"),
        ],
        "--output": [((*WHAT_IF, "-o", "other.yaml"), "--output: --what-if compares and plans nothing")],
        "--simulator-python": [(PYTHON, "not for ant"), ((*WHAT_IF, *PYTHON), "not for ant")],
        "--format": [((*WHAT_IF, "--format", "env"), "--what-if: --format env is one layout")],
    },
    "profile": {
        "--set": [
            ("--set task.stack=2", "ant has no task.stack (it takes none of the section `task`): leave it out"),
            ("--set learner.gamma=0.9", "--set learner.gamma=0.9: a plan is for the usual settings, but for task.*"),
        ],
        "--env-arg": [("--env-arg a=1", "ant is a task of gmi-drl and takes no arguments")],
        "--simulator-python": [(PYTHON, "not for ant")],
    },
    "play": {
        "--steps": [("RUN --steps 3 --seconds 3", "--steps and --seconds cannot be given together")],
        "--seconds": [("RUN --steps 3 --seconds 3", "--steps and --seconds cannot be given together")],
        "--camera": [("RUN --camera side", "--camera and --size are for a video: name its file with -o")],
        "--size": [("RUN --size 640x480", "--camera and --size are for a video: name its file with -o")],
        "--simulator-python": [(("RUN", *PYTHON), "not for ant")],
    },
    "sweep": {
        f"--{name}": [(f"--resume RUN --{name} {value}".strip(), f"--{name}: a resumed sweep has its own")]
        for name, value in {
            **{"task": "ant", "algo": "a3c", "seeds": "0", "set": "seed=3", "iterations": "1", "num-env": "8"},
            **{"gmis-per-gpu": "1", "config": "config.yaml", "rsl-rl-config": "agent.yaml", "command": "true"},
            **{
                "at-once": "1",
                "stop-early": "",
                "sweep-dir": "new",
                "env-arg": "a=1",
                "search": "a=1..2",
                "launcher": "ray",
            },
            **{"trials": "3"},
        }.items()
    },
    "export": {"--simulator-python": [(("RUN", *PYTHON), "not for ant")]},
    "serve": {
        "--num-env": [("RUN layout.yaml --steps 1 --num-env 8", "--num-env: the layout file decides that")],
        "--gmis-per-gpu": [("RUN layout.yaml --steps 1 --gmis-per-gpu 2", "--gmis-per-gpu: the layout file decides")],
        "--experience": [
            ("RUN --steps 1 --experience new --launcher ray", "GMIs of a cluster cannot write experience")
        ],
        "--token-file": [("RUN --steps 1 --token-file layout.yaml", "--token-file is the token of the replay server")],
        "--apply-mig": [("RUN --steps 1 --apply-mig", "--apply-mig is for layouts cut by mig or mig-ci")],
        "--simulator-python": [(("RUN", "--steps", 1, *PYTHON), "not for ant")],
    },
    "replay serve": {"--checkpoint-every": [("tables.yaml --checkpoint-every 5", "--checkpoint-every needs a folder")]},
    "top": {"--format": [("--format json", "--format json prints one document: add --once")]},
    "status": {"--runs-dir": [("RUN --runs-dir runs", "RUN names one run, --runs-dir a folder of runs")]},
    "doctor": {"--remove-stale": [("--remove-stale --cluster ray", "--remove-stale is for this machine")]},
    "bench": {
        "--list": [
            ("--list --stale", "--stale looks at the results"),
            ("--list --guard", "--guard has its own bounds"),
        ],
        "--guard": [("--guard --stale", "--stale looks at the results of the repository")],
        "--repeats": [("--repeats 3", "are for one CASE"), ("--stale --repeats 3", "--stale looks at the results")],
        "--fail-below": [
            ("--fail-below 0", "are for one CASE"),
            ("--guard --fail-below 0", "--guard has its own bounds"),
            ("--stale --fail-below 0", "--stale looks at the results"),
        ],
        "--output": [("-o a.json", "are for one CASE"), ("--guard -o a.json", "--guard has its own bounds")],
    },
    "replay": {},
}
"""By command and option: command lines in which it would have no effect, and what they are told."""

ALWAYS = {
    "train": {"--backend", "--restarts", "--launcher", "--resume", "--logger", "--format"},
    "plan": {"--task", "--backend"},
    "profile": {
        *("--task", "--algo", "--gmis-per-gpu", "--num-env", "--backend", "--budget", "--noise", "--fresh"),
        *("--output", "--format", "--template"),
    },
    "play": {"--output", "--num-env", "--seed", "--stochastic", "--untrained", "--format"},
    "sweep": {"--resume", "--format"},
    "export": {"--to", "--output", "--format"},
    "compare": {"--format"},
    "report": {"--output", "--film"},
    "serve": {"--steps", "--backend", "--seed", "--stochastic", "--launcher", "--format", "--into"},
    "replay import": {"--into", "--skip-broken"},
    "replay serve": {"--port", "--host", "--shards", "--checkpoints", "--restore", "--token-file"},
    "replay info": {"--token-file", "--format"},
    "replay checkpoint": {"--step", "--token-file"},
    "top": {"--runs-dir", "--once", "--all"},
    "status": {"--format"},
    "doctor": {"--cluster", "--format"},
    "bench": {"--stale", "--format"},
    "replay": set(),
}
"""Options that have an effect whatever else is given."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that has saved no more than how far it was."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    folder.create()
    folder.write_setup(tiny_layout(), tiny_config())
    checkpoint.write_part(checkpoint.draft(folder.checkpoints, 2), "learner", {})
    facts = {"iteration": 2, "num_env": tiny_layout().num_env, "learning_rate": tiny_config().learner.learning_rate}
    checkpoint.commit(folder.checkpoints, 2, checkpoint.NO_TRAINING | facts, kept=2)
    return folder.path


def words_of(arguments, run):
    words = arguments.split() if isinstance(arguments, str) else arguments
    return [run if word == "RUN" else word for word in words]


CASES = [(name, one) for name, options in IDLE.items() for lines in options.values() for one in lines]


@pytest.mark.parametrize(("command", "case"), CASES, ids=[f"{name} {one[1]}" for name, one in CASES])
def test_an_option_that_would_have_no_effect_is_refused(command_line, tmp_path, run, command, case):
    (tmp_path / "layout.yaml").write_text(dump_yaml(tiny_layout(1)))
    (tmp_path / "no_task.yaml").write_text(dump_yaml(tiny_layout(1).model_copy(update={"task": None})))
    (tmp_path / "node.yaml").write_text("{version: 1, name: pair, cpu: {cores: 2, memory_gib: 8}}")
    arguments, message = case
    code, out, err = command_line(*command.split(), *words_of(arguments, run))
    assert (code, out) == (2, "") and message in " ".join(err.split())


def leaves(commands, before=""):
    """All commands by what is typed."""
    for command in commands:
        if isinstance(command, click.Group):
            yield from leaves(command.commands.values(), f"{before}{command.name} ")
        else:
            yield f"{before}{command.name}", command


@pytest.mark.parametrize(("name", "command"), list(leaves(map(load, ENTRIES))))
def test_the_walk_over_options_has_every_one(name, command):
    """A new option needs a place in one of the tables."""
    options = {max(parameter.opts, key=len) for parameter in command.params if parameter.opts[0].startswith("-")}
    assert sorted(options) == sorted([*ALWAYS[name], *IDLE.get(name, {})])


def test_the_help_of_train_names_every_algorithm():
    (option,) = (of for of in load("train").params if of.name == "algo")
    named = option.help.partition(": ")[2].partition(", or ")[0].replace(" (ours)", "")
    assert set(named.split(", ")) == {entry.name for entry in LEARNERS.own}


FLOATS = [
    (f"{name} {parameter.name}", parameter)
    for name, command in leaves(map(load, ENTRIES))
    for parameter in command.params
    if isinstance(parameter.type, type(click.FLOAT))
]


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize(("name", "parameter"), FLOATS, ids=[name for name, _ in FLOATS])
def test_no_option_takes_a_number_that_is_not_finite(name, parameter, text):
    with pytest.raises(click.BadParameter, match=r"is not a finite number|is not in the range"):
        parameter.type.convert(text, parameter, None)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("play RUN --seconds 1e10", "is not in the range 0<x<=1000000000"),
        ("bench toy --fail-below nan", "nan is not a finite number"),
        ("replay serve tables.yaml --checkpoint-every 1e10", "is not in the range 1<=x<=31536000"),
    ],
)
def test_numbers_beyond_all_use_are_refused(command_line, run, command, message):
    code, _, err = command_line(*words_of(command, run))
    assert code == 2 and message in " ".join(err.split())
