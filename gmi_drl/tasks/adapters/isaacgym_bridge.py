"""Isaac Gym's side of the bridge: a script for the interpreter that has Isaac Gym (Python 3.8 or older).

`gmi_drl.tasks.adapters.isaacgym_process` starts it, and imports from here what both sides share. So this file runs on
Python 3.7 and later, and imports nothing of gmi_drl.

The protocol, version 2. `argv[1]` is the order (JSON): `version`; `line` and `memory`, inherited descriptors of a
socket (SOCK_SEQPACKET) and of an empty memfd; `parent`, the pid to die with; and what to make: `task`, `num_env`,
`device`, `seed`, `threads`. The bridge makes the task, sets the size of the memory and sends `hello` with the task's
sizes. From then on it answers each STEP or RESET by DONE. Their data is in the memory (`views`), which each side
accesses only while the other one waits. After an error the bridge sends its text and ends. It also ends when the socket
is closed.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import mmap
import os
import random
import signal
import socket
import sys
import traceback
from typing import Any

import numpy as np

VERSION = 2
STEP = b'{"word": "step"}'
RESET = b'{"word": "reset"}'
DONE = b'{"kind": "done"}'
MAX_BYTES = 64 * 1024
"""Longest message."""

DEFAULT_EPISODE_STEPS = 1000
"""Steps of an episode if a task has no `max_episode_length`."""

_ALIGNMENT = 64
_PR_SET_PDEATHSIG = 1


def fields(num_env: int, num_obs: int, num_actions: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape and type of each array in the shared memory, in its order there.

    `bad` marks environments whose observation or reward is not finite; the next step resets them.
    """
    flags = ((num_env,), np.bool_)
    return {
        "action": ((num_env, num_actions), np.float32),
        "obs": ((num_env, num_obs), np.float32),
        "reward": ((num_env,), np.float32),
        "done": flags,
        "timed_out": flags,
        "bad": flags,
    }


def memory_bytes(num_env: int, num_obs: int, num_actions: int) -> int:
    """Size of the shared memory."""
    return sum(_room(shape, kind) for shape, kind in fields(num_env, num_obs, num_actions).values())


def views(memory: mmap.mmap, num_env: int, num_obs: int, num_actions: int) -> dict[str, Any]:
    """The arrays of `fields` in the shared memory."""
    arrays, offset = {}, 0
    for name, (shape, kind) in fields(num_env, num_obs, num_actions).items():
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(memory, dtype=kind, count=count, offset=offset).reshape(shape)
        offset += _room(shape, kind)
    return arrays


def _room(shape: tuple[int, ...], kind: Any) -> int:
    size = int(np.prod(shape)) * int(np.dtype(kind).itemsize)
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class Bridge:
    """A task of IsaacGymEnvs (commit aeed2986 and similar) and the memory that it shares."""

    def __init__(self, order: dict[str, Any]) -> None:
        importlib.import_module("isaacgym")  # must be imported before torch
        self.torch = torch = importlib.import_module("torch")
        envs = importlib.import_module("isaacgymenvs")
        torch.set_num_threads(order["threads"])
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(order["seed"])
        device = order["device"]
        self.env = envs.make(
            seed=order["seed"],
            task=order["task"],
            num_envs=order["num_env"],
            sim_device=device,
            rl_device=device,
            graphics_device_id=-1,
            headless=True,
            force_render=False,
        )
        self.device = device
        self.sizes = {name: int(getattr(self.env, theirs)) for name, theirs in _SIZES.items()}
        if self.sizes["num_obs"] < 1:
            raise ValueError(f"the task's observation is no vector: num_obs is {self.sizes['num_obs']}")
        self.host = self._share(order["memory"])
        self.weights = torch.full((self.sizes["num_obs"],), 2.0**-64, dtype=torch.float32)

    def hello(self) -> dict[str, Any]:
        """The message with all that the GMI must know before the first step."""
        low, high = self._action_bounds()
        return {
            "kind": "hello",
            "version": VERSION,
            "sizes": self.sizes,
            "low": low,
            "high": high,
            "clip": float(getattr(self.env, "clip_actions", np.inf)),
            "episode_steps": int(getattr(self.env, "max_episode_length", DEFAULT_EPISODE_STEPS)),
            "step_s": float(getattr(self.env, "dt", 0.0)) * int(getattr(self.env, "control_freq_inv", 1)),
        }

    def _action_bounds(self) -> tuple[list[float], list[float]]:
        """Lower and upper bound of each action, before the task clips it."""
        space, shape = self.env.action_space, (self.sizes["num_actions"],)
        low, high = (
            np.broadcast_to(np.asarray(bound, np.float64), shape).tolist() for bound in (space.low, space.high)
        )
        return low, high

    def reset(self) -> None:
        """Begin an episode in every environment.

        The task's own `reset` does not simulate and returns zeros: only a step resets environments that are marked.
        """
        self.env.reset_buf.fill_(1)
        self._publish(self.env.step(self.env.zero_actions()))

    def step(self) -> None:
        """Step every environment. The GMI sends finite actions only."""
        self._publish(self.env.step(self.host["action"].to(self.device, copy=True)))  # the task may keep them

    def _publish(self, result: tuple[Any, Any, Any, Any]) -> None:
        """Copy the result of a step to the shared memory, because the task overwrites it."""
        host, (obs, reward, done, extras) = self.host, result
        if "time_outs" not in extras:
            raise KeyError("the task's extras have no 'time_outs': ends and time limits cannot be told apart")
        host["obs"].copy_(obs["obs"])
        host["reward"].copy_(reward)
        host["done"].copy_(done)
        host["timed_out"].copy_(extras["time_outs"])
        # A matrix product sums in a fifth of the time; its weights are so small that it does not overflow
        finite = self.torch.isfinite(host["obs"].mv(self.weights).add_(host["reward"]))
        self.torch.logical_not(finite, out=host["bad"])
        if not finite.all():
            self.env.reset_buf[host["bad"].to(self.env.reset_buf.device)] = 1

    def _share(self, descriptor: int) -> dict[str, Any]:
        os.posix_fallocate(descriptor, 0, memory_bytes(**self.sizes))  # lack of memory fails here, not by SIGBUS later
        arrays = views(mmap.mmap(descriptor, 0), **self.sizes)
        return {name: self.torch.from_numpy(array) for name, array in arrays.items()}


_SIZES = {"num_env": "num_envs", "num_obs": "num_obs", "num_actions": "num_acts"}


def main() -> int:
    """Make the task of the order, then serve it until the socket is closed."""
    order = json.loads(sys.argv[1])
    die_with(order["parent"])
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # they are for the launcher; closing the socket ends this process
    here = os.path.dirname(os.path.abspath(__file__))  # its modules have the names of simulators
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    channel = socket.socket(fileno=order["line"])
    try:
        if order["version"] != VERSION:
            raise ValueError(f"the bridge has version {VERSION} of the protocol, the order version {order['version']}")
        bridge = Bridge(order)
        channel.send(json.dumps(bridge.hello()).encode())
        serve(bridge, channel)
    except ConnectionError:
        return 1
    except (Exception, SystemExit) as error:  # Isaac Gym raises SystemExit when it finds no simulator
        traceback.print_exc(limit=-3)  # short, so that the lines that are shown include the simulator's own output
        text = f"{type(error).__name__}: {error}"
        channel.send(json.dumps({"kind": "error", "message": text[:8000], "missing": is_missing(error)}).encode())
        return 1
    return 0


def serve(bridge: Bridge, channel: socket.socket) -> None:
    """Do each STEP and RESET that is received, until the socket is closed."""
    requests = {STEP: bridge.step, RESET: bridge.reset}
    while True:
        message = channel.recv(MAX_BYTES)
        if not message:
            return
        requests[message]()
        channel.send(DONE)


def is_missing(error: BaseException) -> bool:
    """Whether the interpreter lacks Isaac Gym or a package that it needs."""
    return isinstance(error, ImportError)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the call above
        os._exit(1)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # a simulator's own shutdown may take long, or crash
