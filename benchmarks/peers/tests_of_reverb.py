"""Run dm-reverb's own tests against `gmi_drl.replay.reverb`: `python benchmarks/peers/tests_of_reverb.py [FOLDER]`.

FOLDER is a clone of github.com/google-deepmind/reverb; without one it is cloned to `.peers/reverb_source`. The tests
run under an import alias: `reverb` is our package, `tensorflow` has only the types and specs that they name. Tests
whose subject is the Python layer over a mock of dm-reverb's C++ are counted apart; each failure is printed.
"""

import argparse
import importlib.util
import random
import socket
import subprocess
import sys
import types
import unittest
from pathlib import Path

import numpy as np

from gmi_drl.replay import reverb
from gmi_drl.replay.reverb import (
    checkpointers,
    client,
    columns,
    infos,
    server,
    specs,
    structured,
    tables,
    trajectory_writer,
)

SOURCE = "https://github.com/google-deepmind/reverb"
CLONE = Path(__file__).resolve().parents[2] / ".peers" / "reverb_source"

FILES = {
    "client_test": (),
    "server_test": (),
    "rate_limiters_test": (),
    "structured_writer_test": (),
    "trajectory_writer_test": ("TrajectoryWriterTest",),
    "platform/checkpointers_lib_test": ("TempDirCheckpointer",),
}
"""The files, with the classes whose subject is a mock of the C++ layer, or an object of it."""


def main() -> None:
    """Fetch the tests, run them, print what passes, and what does not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=CLONE)
    folder = parser.parse_args().folder
    if not folder.exists():
        subprocess.run(["git", "clone", "--depth", "1", SOURCE, str(folder)], check=True)
    make_alias()
    random.seed(0)
    np.random.seed(0)
    passed, failed, left_out = 0, 0, 0
    for name, mocked in FILES.items():
        result = unittest.TestResult()
        tests = list(tests_of(unittest.defaultTestLoader.loadTestsFromModule(load(folder, name))))
        chosen = [test for test in tests if type(test).__name__ not in mocked]
        unittest.TestSuite(chosen).run(result)
        bad = result.failures + result.errors
        print(f"{name}: {len(chosen) - len(bad)} of {len(chosen)} pass, {len(tests) - len(chosen)} need a mock")
        for test, text in bad:
            print(f"  {test}: {text.strip().splitlines()[-1]}")
        passed, failed, left_out = (
            passed + len(chosen) - len(bad),
            failed + len(bad),
            left_out + len(tests) - len(chosen),
        )
    print(f"{passed} of {passed + failed} pass; {left_out} test a mock of dm-reverb's C++ layer")


def tests_of(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    """The tests in a suite of suites."""
    return [found for test in suite for found in (tests_of(test) if isinstance(test, unittest.TestSuite) else [test])]


def load(folder: Path, name: str) -> types.ModuleType:
    """A file of tests as a module, from a work tree or from a bare repository."""
    path = folder / "reverb" / f"{name}.py"
    if path.exists():
        text = path.read_text()
    else:
        text = subprocess.run(
            ["git", "-C", str(folder), "show", f"HEAD:reverb/{name}.py"], check=True, capture_output=True, text=True
        ).stdout
    module = types.ModuleType(name.replace("/", "_"))
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def make_alias() -> None:
    """Let `import reverb` and what the tests need of other packages find stand-ins."""
    if missing := [name for name in ("absl", "tree") if importlib.util.find_spec(name) is None]:
        sys.exit(f"the tests need {' and '.join(missing)}: pip install absl-py dm-tree")
    put("reverb", reverb)
    put("reverb.server", tables, Server=server.Server)
    put("reverb.client", client)
    put("reverb.structured_writer", structured)
    put("reverb.trajectory_writer", trajectory_writer, _ColumnHistory=columns.ColumnHistory)
    for name in ("errors", "item_selectors", "rate_limiters"):
        put(f"reverb.{name}", getattr(reverb, name))
    put("reverb.pybind", types.ModuleType("pybind"), HeapSelector=reverb.selectors.MinHeap)
    put("reverb.platform", types.ModuleType("platform"))
    put("reverb.platform.checkpointers_lib", checkpointers)
    put("reverb.reverb_types", infos)
    put("portpicker", types.ModuleType("portpicker"), pick_unused_port=free_port, return_port=lambda port: None)
    kinds = {name: np.dtype(name) for name in ("int32", "int64", "float32", "float64", "uint8")}
    for name in ("tensorflow", "tensorflow.compat", "tensorflow.compat.v1", "tensorflow.python.framework"):
        put(name, types.ModuleType(name), TensorSpec=specs.TensorSpec, **kinds)
    put("tensorflow.python", types.ModuleType("tensorflow.python"))
    put("tensorflow.python.framework.tensor_spec", specs)


def put(name: str, module: types.ModuleType, **more: object) -> None:
    """Let a name import a module, with further attributes."""
    vars(module).update(more)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


if __name__ == "__main__":
    main()
