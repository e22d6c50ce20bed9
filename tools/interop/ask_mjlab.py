"""In mjlab's own Python: `python -m tools.interop.ask_mjlab FOLDER` writes the configurations of its tasks.

FOLDER gets `agents/TASK.yaml`, dumped as mjlab's `train` dumps `params/agent.yaml`, and `motion.npz`, in which a G1
stands still for two seconds: mjlab ships no motion.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mjlab.tasks
import numpy as np
from mjlab.envs import ManagerBasedRlEnv
from mjlab.tasks.registry import list_tasks, load_env_cfg, load_rl_cfg
from mjlab.utils.os import dump_yaml

STANDS = "Mjlab-Velocity-Flat-Unitree-G1"
FRAMES, FPS = 100, 50


def main(folder: Path) -> None:
    """Write the files, and print the tasks and whether each follows a motion, as one line of JSON."""
    assert mjlab.tasks  # registers the tasks
    follows = {}
    for task in list_tasks():
        dump_yaml(folder / "agents" / f"{task}.yaml", asdict(load_rl_cfg(task)))
        follows[task] = any(hasattr(command, "motion_file") for command in load_env_cfg(task).commands.values())
    if any(follows.values()):
        dump_motion(folder / "motion.npz")
    print(json.dumps(follows))


def dump_motion(path: Path) -> None:
    """Write a motion whose every frame is the initial pose of a G1."""
    cfg = load_env_cfg(STANDS)
    cfg.scene.num_envs, cfg.seed = 1, 0
    env = ManagerBasedRlEnv(cfg, "cpu")
    env.reset()
    robot = env.scene["robot"].data
    still = {
        "joint_pos": robot.default_joint_pos,
        "joint_vel": robot.joint_vel * 0,
        "body_pos_w": robot.body_link_pos_w - env.scene.env_origins[:, None],
        "body_quat_w": robot.body_link_quat_w,
        "body_lin_vel_w": robot.body_link_lin_vel_w * 0,
        "body_ang_vel_w": robot.body_link_ang_vel_w * 0,
    }
    frames: dict[str, Any] = {name: np.repeat(part.numpy(), FRAMES, axis=0) for name, part in still.items()}
    np.savez(path, fps=[FPS], **frames)
    env.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
