"""The stages of `gpu_day.py` after its first three calls: repeated comparisons, the paper's figures, and the rest."""

from gpu_day_parts import Part

TASKS = ("ant", "humanoid", "shadow_hand", "anymal", "ball_balance", "franka_cabinet")


def _case(name: str, about: str, gpu_s: float) -> Part:
    """A stage that runs a case of `gmi-drl bench` and keeps its result."""
    return Part(name, about, gpu_s, (f"{{case}} {name} {{kept}}",))


def _sharing(task: str) -> tuple[Part, ...]:
    about = f"{task}: 1, 2, 4 GMIs by plain sharing and under MPS, capped and not, at "
    return (
        _case(f"sharing_{task}", about + "one total of environments", 340),
        _case(f"sharing_{task}_at_solos_best", about + "solo's best", 400),
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


LATER: tuple[Part, ...] = (
    # Is it right? The plan measures the reductions, by which replicas then choose.
    Part(
        "plan",
        "a plan of a minute, and its training",
        110,
        (
            "gmi-drl plan --task ant --fresh --budget {budget} -o {results}/plan.yaml",
            "gmi-drl train {results}/plan.yaml --iterations {iterations} --run-dir run",
        ),
    ),
    Part(
        "replicas",
        "2 and 4 GMIs: each checkpoint compares the digests of all",
        55,
        (
            "{train} --gmis-per-gpu {two} --num-env {few} --iterations {more} --set checkpoint_every=5 --run-dir two",
            "{train} --gmis-per-gpu {four} --num-env {few} --iterations {more} --set checkpoint_every=5 --run-dir four",
        ),
    ),
    # Does sharing pay?
    Part(
        "sharing_8",
        "as sharing, also by 8 GMIs and with other numbers of environments",
        380,
        ("python {ask} sharing ant {totals} 1 2 4 8",),
    ),
    *_sharing("ant"),
    Part(
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
    # The paper's figures on sharing: first one task of each, then the others.
    _case("figure_1b", "Figure 1(b): the part of the SMs that has work", 200),
    *_figures("ant"),
    _case("algorithm_2_gpu", "Algorithm 2 and a plan against the best of a grid, by plain sharing", 510),
    _case("algorithm_2_gpu_mps", "the same under MPS", 510),
    _case("green_contexts", "two simulators on disjoint halves of the SMs", 150),
    *(part for task in TASKS[1:] for part in _figures(task)),
    # Agents and trainers on GMIs of their own.
    Part(
        "decoupled",
        "A3C on three agents and a trainer",
        40,
        (
            "{train} --template decoupled --algo a3c --gmis-per-gpu {four} --num-env {many} --iterations {more}"
            " --run-dir four",
        ),
    ),
    _case("experience_on_gpu", "experience by CUDA IPC against a way through the host", 240),
    # The rest.
    Part(
        "learns",
        "Ant from nothing, then played without noise",
        75,
        (
            "{train} --gmis-per-gpu 1 --num-env {many} --iterations 99999 --set time_limit_s={learning_s}"
            " --run-dir run",
            "gmi-drl play run --num-env {few} --steps 500",
        ),
    ),
    Part(
        "no_graphs",
        "the first run without CUDA graphs",
        50,
        ("{train} --gmis-per-gpu 1 --num-env {few} --iterations {more} --set cuda_graphs=false --run-dir run",),
    ),
    Part(
        "rsl_rl",
        "rsl_rl's runner on two GMIs",
        50,
        ("{train} --algo rsl_rl --gmis-per-gpu {two} --num-env {few} --iterations {more} --run-dir run",),
    ),
    Part(
        "tf32",
        "what TF32 is worth to small networks and to large ones, above all in an update",
        100,
        ("python {tf32} ant {many}", "python {tf32} shadow_hand {many}"),
    ),
    Part("warp_kernels", "which of Warp's kernels take the time of a step", 30, ("python {warp_kernels} ant {many}",)),
    Part("figure_10", "Figure 10, with graphs and without", 290, ("{case} figure_10 {kept_once}",)),
    Part("physics", "physics alone, all tasks, with graphs and without", 290, ("{case} physics {kept_once}",)),
)
