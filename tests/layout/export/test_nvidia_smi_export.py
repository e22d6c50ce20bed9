import json
import os
import subprocess
import sys

import pytest
from layouts import A100, H100, backends, cut, even, exported, profiles  # noqa: F401

from gmi_drl.hardware.gpus import find_gpu

pytestmark = pytest.mark.usefixtures("backends")

FAKE = """#!{python}
'''Keeps MIG instances in a file, by the grammar of `nvidia-smi mig --help`; what it does not know fails.'''
import argparse, json, sys
state = json.load(open({file!r}))
arguments = sys.argv[1:]
def save():
    json.dump(state, open({file!r}, "w"))
    sys.exit()
def tuples(text):
    return [(name, int(start) if colon else None) for name, colon, start in (t.partition(":") for t in text.split(","))]
parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("-i", required=True)
if arguments[0] != "mig":
    parser.add_argument("-mig", choices=["0", "1"], required=True)
    told = parser.parse_args(arguments)
    if told.mig == "0" and state[told.i]["instances"]:
        sys.exit("In use by another client")
    state[told.i]["mig"] = told.mig == "1"
    save()
parser.add_argument("-C", action="store_true")
verbs = parser.add_mutually_exclusive_group(required=True)
verbs.add_argument("-cgi", type=tuples)
verbs.add_argument("-cci", type=tuples)
verbs.add_argument("-dci", action="store_true")
verbs.add_argument("-dgi", action="store_true")
told = parser.parse_args(arguments[1:])
gpu = state[told.i]
if not gpu["mig"]:
    sys.exit("No MIG-enabled devices found.")
for name, start in told.cgi or []:
    starts, size = gpu["profiles"][name]
    taken = {{s for one in gpu["instances"] for s in range(one["start"], one["start"] + one["size"])}}
    if start not in starts or taken & set(range(start, start + size)):
        sys.exit("Insufficient Resources")
    gpu["instances"].append({{"name": name, "start": start, "size": size, "compute": [name] if told.C else []}})
for name, _ in told.cci or []:
    for one in gpu["instances"]:
        one["compute"].append(name)
if told.dci:
    for one in gpu["instances"]:
        one["compute"] = []
if told.dgi:
    if any(one["compute"] for one in gpu["instances"]):
        sys.exit("In use by another client")
    gpu["instances"] = []
save()
"""


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Runs a script against GPUs of these models and tells what is there then, by GPU: mode, and compute instances."""
    program, file = tmp_path / "nvidia-smi", tmp_path / "state.json"
    program.write_text(FAKE.format(python=sys.executable, file=str(file)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def boot(*models):
        gpus = [{p.name: (p.starts, p.size) for p in find_gpu(model).mig} for model in models]
        state = {i: {"mig": False, "profiles": table, "instances": []} for i, table in enumerate(gpus)}
        file.write_text(json.dumps(state))

        def run(script):
            subprocess.run(["sh"], input=script, text=True, check=True, timeout=60)
            gpus = json.loads(file.read_text()).values()
            return [(gpu["mig"], [(one["start"], one["compute"]) for one in gpu["instances"]]) for gpu in gpus]

        return run

    return boot


def undoing(text):
    """The commands that the comment at the end tells."""
    return "\n".join(line.lstrip("# ") for line in text.partition("# To undo it")[2].splitlines()[1:])


def test_the_commands_make_the_instances_where_they_fit_and_undo_them(driver):
    run = driver(A100, H100)
    text = exported("nvidia-smi", cut("mig", profiles("2g.10gb", "3g.20gb", "2g.10gb"), even(4)), A100, H100)
    assert run(text) == [
        (True, [(0, ["2g.10gb"]), (2, ["2g.10gb"]), (4, ["3g.20gb"])]),
        (True, [(start, ["1g.20gb"]) for start in (0, 2, 4, 6)]),
    ]
    assert run(undoing(text)) == [(False, []), (False, [])]


def test_compute_instances_lie_in_the_one_gpu_instance(driver):
    run = driver(A100)
    text = exported("nvidia-smi", cut("mig-ci", even(3)), A100)
    assert run(text) == [(True, [(0, ["2c.7g.40gb"] * 3)])]
    assert run(undoing(text)) == [(False, [])]


def test_a_command_that_fails_is_the_last(driver):
    run = driver(A100)
    text = exported("nvidia-smi", cut("mig", even(7)), A100)
    run(text)
    with pytest.raises(subprocess.CalledProcessError):
        run(text)
