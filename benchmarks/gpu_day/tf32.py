"""What TF32 gains: the speed of a GMI that trains with it and of one without, measured in turn as by `gmi-drl plan`.

    python tf32.py TASK NUM_ENV

Prints steps per second and the seconds of the phases of an iteration. Most products are in the update (`learn_s`).
"""

import argparse

from gpu_question_gmis import MEASURE_S, figures
from gpu_question_helpers import attempt

from gmi_drl.config.run_config import default_config
from gmi_drl.gmi.inventory import this_node
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler.session import Session
from gmi_drl.profiler.sessions import Sessions
from gmi_drl.templates import TCG_EX
from gmi_drl.workload import TASK_SPECS

ROUNDS = 3


def main() -> None:
    """Measure, and print each figure as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASK_SPECS)
    parser.add_argument("num_env", type=int)
    parser.add_argument("--seconds", type=float, default=MEASURE_S, help="of each measurement (default: %(default)g)")
    given = parser.parse_args()
    task = TASK_SPECS[given.task]
    config, alone = default_config(task), TCG_EX.lay_out(task, this_node(), Cut(1, 1))
    ways = {"float32": config, "tf32": config.model_copy(update={"tf32": True})}
    sides = {way: Session(alone, its) for way, its in ways.items()}
    with Sessions(sides, "the worth of TF32") as sessions:
        for turn in range(1, ROUNDS + 1):
            for way in ways:
                name = f"{given.task} {way} {turn}"
                attempt(name, lambda way=way: figures(sessions[way].measure(given.num_env, given.seconds)))


if __name__ == "__main__":
    main()
