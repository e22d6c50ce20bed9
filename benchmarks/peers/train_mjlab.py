"""mjlab's task by the runner and configuration that mjlab has for it: alone, or by gmi-drl on GMIs.

Alone it has a core for each thread of torch's and writes nothing; Warp's kernels take one core whatever there is.
"""

import os
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import mjlab.tasks
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg, load_runner_cls
from mjlab.utils.os import dump_yaml
from settings import Updates, make_parser

REPOSITORY = Path(__file__).resolve().parents[2]
ITERATIONS = 1_000_000  # more than the time allows


def main() -> None:
    """Train for the time given."""
    assert mjlab.tasks  # which registers them
    parser = make_parser(__doc__)
    parser.add_argument("--task", required=True, help="an id of mjlab's registry")
    parser.add_argument("--gmis", type=int, default=0, help="of a core each, which share the environments; 0: none")
    given = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.threads])  # GMIs divide these cores
    train_alone(given) if given.gmis == 0 else train_on_gmis(given)


def train_alone(given: Namespace) -> None:
    """As mjlab's `train` does, but for its files."""
    torch.set_num_threads(given.threads)
    env_cfg, agent_cfg = load_env_cfg(given.task), load_rl_cfg(given.task)
    env_cfg.scene.num_envs, env_cfg.seed = given.num_env, given.seed
    env = RslRlVecEnvWrapper(ManagerBasedRlEnv(env_cfg, "cpu"), clip_actions=agent_cfg.clip_actions)
    runner = (load_runner_cls(given.task) or MjlabOnPolicyRunner)(env, asdict(agent_cfg), None, "cpu")
    updates, env_steps = Updates(given.seconds), 0
    while not updates.is_over:
        runner.learn(1, init_at_random_ep_len=env_steps == 0)
        env_steps += agent_cfg.num_steps_per_env * given.num_env
        updates.report(env_steps, None)


def train_on_gmis(given: Namespace) -> None:
    """As `gmi-drl train` does, from this checkout."""
    sys.path.append(str(REPOSITORY))
    os.environ["PYTHONPATH"] = str(REPOSITORY)  # for the GMIs
    from gmi_drl.cli.layouts import make_layout
    from gmi_drl.config.learners.rsl_rl import read_over
    from gmi_drl.config.run_config import apply_settings, default_config
    from gmi_drl.launch.job import resolve
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.launch.training import train
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.templates import TCG_EX

    name = f"mjlab:{given.task}"
    layout = make_layout(name, given.num_env // given.gmis, given.gmis, TCG_EX)
    usual = default_config(task_spec(name), "rsl_rl")
    settings = [f"iterations={ITERATIONS}", f"time_limit_s={given.seconds}", f"seed={given.seed}"]
    with TemporaryDirectory(prefix="gmi-drl-bench-") as path:
        agent, folder = Path(path) / "agent.yaml", RunFolder(Path(path) / "run")
        dump_yaml(agent, asdict(load_rl_cfg(given.task)) | {"logger": None})
        config = apply_settings(usual, settings, str(agent), read_over(usual.learner, agent))
        folder.create()
        updates = Updates(given.seconds)
        train(resolve(layout, config, folder), on_row=lambda row: updates.report(row["env_steps"], row["return_mean"]))


if __name__ == "__main__":
    main()
