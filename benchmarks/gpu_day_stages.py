"""The stages of `gpu_day.py` in their order of importance, at the size of a GPU and at that of a rehearsal."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import first_light
from stages import Stage

TESTS = Path(__file__).resolve().parents[1] / "tests"
TF32 = Path(__file__).with_name("tf32.py").resolve()

FULL = {
    "train": "gmi-drl train --task ant --set physics=warp",
    "profile": "gmi-drl profile --fresh --gmis-per-gpu 1",
    "physics": "warp",
    "few": "512",
    "many": "4096",
    "two": "2",
    "four": "4",
    "walk": "512,2048,8192,16384,32768,65536",
    "short_walk": "2048,8192,32768",
    "totals": "2048 8192 32768",
    "iterations": "30",
    "more": "40",
    "budget": "60",
    "learning_s": "45",
    "kept": "-o {results}/{stage}.json",
    "kept_once": "--repeats 1 -o {results}/{stage}.json",
}
SMALL = {
    "train": "gmi-drl train --task ant --set physics=native",
    "profile": "gmi-drl profile --fresh --gmis-per-gpu 1",
    "physics": "native",
    "few": "8",
    "many": "16",
    "two": "2",
    "four": "2",
    "walk": "8,16",
    "short_walk": "8",
    "totals": "16",
    "iterations": "2",
    "more": "3",
    "budget": "20",
    "learning_s": "2",
    "kept": "--list",
    "kept_once": "--list",
}
"""For two cores without a GPU. Cases of `gmi-drl bench` have no smaller size: they are only looked up."""

SHARING = 10
"""The question of `first_light.py` that is the stage `sharing`, and comes before the others."""
SHARING_S = 440.0

Part = tuple[str, str, float, tuple[str, ...]]
"""Name, what it is about, seconds on a GPU, commands."""

BEFORE_THE_QUESTIONS: tuple[Part, ...] = (
    # Does it run?
    (
        "machine",
        "driver, GPU, versions",
        30,
        ("gmi-drl doctor", "python -m torch.utils.collect_env", "python -c 'import warp; warp.init()'"),
    ),
    (
        "kernels",
        "MuJoCo Warp's kernels for Ant are compiled, before anything is timed",
        120,
        ("{train} --gmis-per-gpu 1 --num-env {few} --iterations 1 --run-dir run",),
    ),
    (
        "first_run",
        "a training on one GMI, and how it goes on from its checkpoint",
        50,
        (
            "{train} --gmis-per-gpu 1 --num-env {few} --iterations {iterations} --run-dir run",
            "gmi-drl train --resume run --iterations {more}",
        ),
    ),
    # Is it right?
    (
        "tests",
        "the tests that need a GPU",
        150,
        ("python -m pytest -m gpu --continue-on-collection-errors -p no:cacheprovider {tests}",),
    ),
    (
        "replicas",
        "2 and 4 GMIs: each checkpoint compares the digests of all",
        70,
        (
            "{train} --gmis-per-gpu {two} --num-env {few} --iterations {more} --set checkpoint_every=5 --run-dir two",
            "{train} --gmis-per-gpu {four} --num-env {few} --iterations {more} --set checkpoint_every=5 --run-dir four",
        ),
    ),
    # How fast alone?
    ("solo", "one GMI over environments", 110, ("{profile} --task ant --num-env {walk} -o {results}/solo.json",)),
)

TASKS = ("ant", "humanoid", "shadow_hand", "anymal", "ball_balance", "franka_cabinet")


def _case(name: str, about: str, seconds: float) -> Part:
    """A case of `gmi-drl bench`, whose result is kept."""
    return name, about, seconds, (f"gmi-drl bench {name} {{kept}}",)


def _sharing(task: str) -> tuple[Part, ...]:
    about = f"{task}: 1, 2, 4, 8 GMIs by plain sharing and under MPS, capped and not, at "
    return (
        _case(f"sharing_{task}", about + "one total of environments", 470),
        _case(f"sharing_{task}_at_solos_best", about + "solo's best", 520),
    )


def _figures(task: str) -> tuple[Part, ...]:
    return (
        *(
            _case(f"figure_7_{purpose}_{task}", f"Figure 7, {purpose}: the best of 2 to 10 GMIs against one", 500)
            for purpose in ("training", "serving")
        ),
        *(
            _case(f"figure_8_{task}_{count}", f"Figure 8: {count} serving processes, MPS against plain sharing", 150)
            for count in (2, 3)
        ),
    )


AFTER_THE_QUESTIONS: tuple[Part, ...] = (
    # Does it pay to share?
    *_sharing("ant"),
    (
        "other_kernels",
        "the kernels of the other tasks are compiled",
        250,
        tuple(
            f"gmi-drl train --task {task} --gmis-per-gpu 1 --num-env 8 --iterations 1 --run-dir {task}"
            " --set physics={physics}"
            for task in TASKS[1:]
        ),
    ),
    *_sharing("humanoid"),
    *_sharing("shadow_hand"),
    # The paper's figures of sharing: one of each first, the other tasks as time allows.
    _case("figure_1b", "Figure 1(b): the part of the SMs that has work", 200),
    *_figures("ant"),
    _case("algorithm_2_gpu", "Algorithm 2 and a plan against the best of a grid, by plain sharing", 520),
    _case("algorithm_2_gpu_mps", "the same under MPS", 520),
    _case("green_contexts", "two simulators on disjoint halves of the SMs", 150),
    *(part for task in TASKS[1:] for part in _figures(task)),
    # Agents and trainers on GMIs of their own.
    (
        "decoupled",
        "A3C on an agent and a trainer, and on three and one, with experience on the GPU",
        70,
        (
            "{train} --template decoupled --algo a3c --gmis-per-gpu {two} --num-env {few} --iterations {more}"
            " --run-dir two",
            "{train} --template decoupled --algo a3c --gmis-per-gpu {four} --num-env {many} --iterations {more}"
            " --run-dir four",
        ),
    ),
    _case("experience_on_gpu", "experience by CUDA IPC against a way through the host", 240),
    # What else?
    (
        "plan",
        "a plan of a minute, and its training",
        130,
        (
            "gmi-drl plan --task ant --fresh --budget {budget} -o {results}/plan.yaml",
            "gmi-drl train {results}/plan.yaml --iterations {iterations} --run-dir run",
        ),
    ),
    (
        "learns",
        "Ant from nothing, then played without noise",
        90,
        (
            "{train} --gmis-per-gpu 1 --num-env {many} --iterations 99999 --set time_limit_s={learning_s}"
            " --run-dir run",
            "gmi-drl play run --num-env {few} --steps 500",
        ),
    ),
    (
        "serving",
        "a policy served by one GMI, and by two",
        70,
        (
            "{train} --gmis-per-gpu 1 --num-env {few} --iterations 1 --run-dir run",
            "gmi-drl serve run --steps 200 --num-env {many} --gmis-per-gpu 1",
            "gmi-drl serve run --steps 200 --num-env {many} --gmis-per-gpu {two}",
        ),
    ),
    (
        "native",
        "physics on the cores, learning on the GPU",
        50,
        (
            "gmi-drl train --task ant --set physics=native --gmis-per-gpu {two} --num-env {few} --iterations {more}"
            " --run-dir run",
        ),
    ),
    (
        "no_graphs",
        "the first run without CUDA graphs",
        60,
        ("{train} --gmis-per-gpu 1 --num-env {few} --iterations {more} --set cuda_graphs=false --run-dir run",),
    ),
    (
        "rsl_rl",
        "rsl_rl's runner on two GMIs",
        60,
        ("{train} --algo rsl_rl --gmis-per-gpu {two} --num-env {few} --iterations {more} --run-dir run",),
    ),
    (
        "tf32",
        "what TF32 is worth to small networks and to large ones, above all in an update",
        120,
        ("python {tf32} ant {many}", "python {tf32} shadow_hand {many}"),
    ),
    *(
        (task, "as solo", 90, ("{profile} --num-env {short_walk} " + f"--task {task} -o {{results}}/{task}.json",))
        for task in ("humanoid", "shadow_hand")
    ),
    ("figure_10", "Figure 10 of the paper, with graphs and without", 300, ("gmi-drl bench figure_10 {kept_once}",)),
    ("physics", "physics alone, all tasks, with graphs and without", 300, ("gmi-drl bench physics {kept_once}",)),
)


def all_stages(results: Path, is_rehearsal: bool) -> list[Stage]:
    """All stages; files that are to be kept go into the folder `results`."""
    sizes = SMALL if is_rehearsal else FULL
    sharing = first_light.stage(SHARING, [int(total) for total in sizes["totals"].split()])
    return [
        *_filled(BEFORE_THE_QUESTIONS, sizes, results),
        Stage("sharing", sharing.about, SHARING_S, sharing.commands),
        *(first_light.stage(number) for number in first_light.ORDER if number != SHARING),
        *_filled(AFTER_THE_QUESTIONS, sizes, results),
    ]


def _filled(parts: tuple[Part, ...], sizes: Mapping[str, str], results: Path) -> Iterator[Stage]:
    files = {"tests": TESTS, "tf32": TF32, "results": results.resolve()}
    places = {name: shlex.quote(str(file)) for name, file in files.items()}
    for name, about, seconds, commands in parts:
        kept = places | {"stage": name}
        lines = (command.format_map({**sizes, **kept}).format_map(kept) for command in commands)
        yield Stage(name, about, seconds, tuple(tuple(shlex.split(line)) for line in lines))
