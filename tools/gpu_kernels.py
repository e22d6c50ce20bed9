"""`python -m tools.gpu_kernels`: compile MuJoCo Warp's kernels for a GPU, on a machine without one.

    WARP_CACHE_PATH=gpu_kernels python -m tools.gpu_kernels              all our tasks, for an H100 or H200
    WARP_CACHE_PATH=gpu_kernels python -m tools.gpu_kernels --check ant  lists what would still be compiled there

Needs no driver: NVRTC is in Warp's library. The physics of a task is created as in a training, but on a CPU; Warp and
MuJoCo Warp see a fake GPU. Warp's own code then names the file of each module, by a hash of its sources and options,
and compiles it. Nothing is launched.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import warp as wp
from warp._src import context

from gmi_drl.tasks import TASKS, make_sim
from gmi_drl.tasks.sim import warp_graph  # noqa: F401  (it initialises Warp)

ARCHITECTURE, SMS = 90, 132
"""Architecture and number of SMs of the H100 SXM and the H200. MuJoCo Warp sizes launches by the number of SMs."""
TASKS_ON_WARP = [name for name, definition in TASKS.items() if not definition.as_stepped]


class _NotLoadedError(Exception):
    """Raised when a module is to be loaded, as there is no GPU."""


@dataclass
class Asked:
    """The compiled files that a GPU would have loaded, each with the function that compiles it."""

    files: dict[Path, Callable[[], object]] = field(default_factory=dict)

    def missing(self) -> list[Path]:
        """The files that are not in the cache, or lack the `.meta` file that Warp needs beside them."""
        return [file for file in self.files if not (file.exists() and _meta(file).exists())]

    def compile(self) -> None:
        """Compile the missing files on all cores."""
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(lambda file: self.files[file](), self.missing()))


def main(words: Sequence[str] | None = None) -> int:
    """Compile the kernels, or with `--check` only list them. Returns 1 if some are missing afterwards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(TASKS_ON_WARP)} (default: all)")
    parser.add_argument("--arch", type=int, default=ARCHITECTURE, help="compute capability (default: %(default)s)")
    parser.add_argument("--sms", type=int, default=SMS, help="SMs of the GPU (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="compile nothing, tell what is missing")
    given = parser.parse_args(words)
    if unknown := set(given.tasks) - set(TASKS_ON_WARP):
        parser.error(f"MuJoCo Warp simulates no {', '.join(sorted(unknown))}")
    asked = asked_by(given.tasks or TASKS_ON_WARP, stand_in(given.arch, given.sms))
    if not given.check:
        asked.compile()
    missing = asked.missing()
    print(*missing, f"{len(asked.files)} modules, {len(missing)} missing", sep="\n")
    return int(bool(missing))


def stand_in(architecture: int, sms: int) -> Any:
    """A fake GPU with what Warp reads of one before it loads a module."""
    gpu = object.__new__(context.Device)  # its constructor asks the driver
    gpu.__dict__ |= {
        "runtime": context.runtime,
        "alias": "cuda:0",
        "ordinal": 0,
        "_context": 1,
        "arch": architecture,
        "sm_count": sms,
        "is_cubin_supported": True,
    }
    return gpu


def asked_by(tasks: Sequence[str], gpu: Any, num_env: int = 8) -> Asked:
    """The files that the physics of these tasks load for steps, resets, saving and loading, with and without graphs."""
    with on_gpu(gpu) as asked:
        for name in tasks:
            for cuda_graphs in (True, False):
                sim = make_sim(TASKS[name], num_env, physics="warp", cuda_graphs=cuda_graphs)
                sim.load_state_dict(sim.state_dict())
                sim.close()
    return asked


@contextmanager
def on_gpu(gpu: Any) -> Iterator[Asked]:
    """In a `with` block, make `gpu` Warp's current device, and end each launch where its module would be compiled.

    Arrays stay on the CPU, and no kernel writes to them. Loops and branches on the device run once each.
    """
    asked, device_of, compile_module = Asked(), wp.get_device, context.Module._compile

    def note(module: Any, device: Any, folder: str, name: str, arch: int, options: dict[str, Any]) -> None:
        def compiled() -> None:
            compile_module(module, device, folder, name, arch, options=options)

        asked.files.setdefault(Path(folder, name), compiled)
        raise _NotLoadedError

    def there(call: Callable[..., Any], answer: Any = None) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            with patch.object(context.runtime, "get_device", lambda ident=None: gpu), suppress(_NotLoadedError):
                call(*arguments, **named)
            return answer

        return called

    replaced: list[tuple[Any, str, Any]] = [
        (context.Module, "_compile", note),
        (wp, "launch", there(wp.launch)),
        (wp, "launch_tiled", there(wp.launch_tiled)),
        (wp, "get_suggested_block_size", there(wp.get_suggested_block_size, (256, gpu.sm_count))),
        (wp, "get_device", lambda ident=None: gpu if ident is None else device_of(ident)),
        (wp, "is_mempool_enabled", lambda device: True),
        (wp, "is_conditional_graph_supported", lambda: True),
        (wp, "capture_while", lambda condition, while_body, **named: while_body(**named)),
        (wp, "capture_if", _both),
    ]
    with ExitStack() as stack:
        for owner, name, instead in replaced:
            stack.enter_context(patch.object(owner, name, instead))
        yield asked


def _both(condition: Any, on_true: Any = None, on_false: Any = None, **named: Any) -> None:
    for branch in filter(None, (on_true, on_false)):
        branch(**named)


def _meta(file: Path) -> Path:
    return file.with_name(f"{file.name.rpartition('.sm')[0]}.meta")


if __name__ == "__main__":
    sys.exit(main())
