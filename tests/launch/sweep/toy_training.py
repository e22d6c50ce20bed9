"""Stands for `gmi-drl train` in tests: writes a run whose rows depend on its seed alone, and goes on after a kill."""

import json
import sys
import time
from pathlib import Path

ROWS, STEP_S = 12, 0.03

LAYOUT = """version: 2
task: ball_balance
template: TCG_EX
devices:
- kind: cpu
  gmis:
  - {id: 0, cores: [0], num_env: 4, roles: [simulator, agent, trainer]}
groups:
  trainers: {members: [0], reduction: none}
"""


def option(name, usual=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else usual


def main():
    run = Path(option("--resume") or option("--run-dir"))
    if "--resume" in sys.argv:
        seed, rate = json.loads((run / "toy.json").read_text())
    else:
        settings = [sys.argv[place + 1] for place, word in enumerate(sys.argv) if word == "--set"]
        seed, rate = int(option("--seed")), float(dict(one.split("=") for one in settings).get("rate", 1))
        (run / "checkpoints").mkdir(parents=True, exist_ok=True)
        (run / "toy.json").write_text(json.dumps([seed, rate]))
        write_setup(run, seed, rate)
    if option("--fail") == str(seed):
        sys.exit(9)
    done = max((int(path.name) for path in (run / "checkpoints").iterdir()), default=0)
    rows = [row(seed, rate, number) for number in range(1, done + 1)]
    for number in range(done + 1, ROWS + 1):
        time.sleep(STEP_S)
        rows.append(row(seed, rate, number))
        (run / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
        saved = run / "checkpoints" / f"{number:06d}"
        saved.mkdir()
        (saved / "checkpoint.json").write_text("{}")
    (run / "state.json").write_text(json.dumps({"state": "done", "message": "", "host": None}))


def row(seed, rate, number):
    value = rate * number + seed
    return {"iteration": number, "env_steps": 10 * number, "return_mean": value, "steps_per_second": 50.0}


def write_setup(run, seed, rate):
    (run / "layout.yaml").write_text(LAYOUT)
    (run / "config.yaml").write_text(f"version: 2\nseed: {seed}\nlearner: {{kind: ppo, learning_rate: {rate}}}\n")


main()
