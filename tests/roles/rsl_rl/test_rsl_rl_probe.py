import tempfile

import pytest
from conftest import started, tiny_config, tiny_layout, two_cores

from gmi_drl.config.learners import PPOConfig, RslRlConfig
from gmi_drl.config.learners.rsl_rl import runner_config
from gmi_drl.profiler.session import Session
from gmi_drl.run.phases import PHASE_NAMES

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

OURS = PPOConfig(horizon=4, epochs=1, minibatches=2, hidden=(8,))
COUNTER = """
from rsl_rl.algorithms import PPO

class Counted(PPO):
    def update(self):
        with open({file!r}, "a") as counted:
            counted.write(f"{{self.storage.num_envs}} ")
        return super().update()
"""


@two_cores
def test_iterations_of_rsl_rls_own_runner_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    (tmp_path / "counter.py").write_text(COUNTER.format(file=str(tmp_path / "counted")))
    runner = runner_config(OURS)
    runner = {**runner, "algorithm": runner["algorithm"] | {"class_name": "counter:Counted"}, "logger": "tensorboard"}
    with started(Session(tiny_layout(2), tiny_config(learner=RslRlConfig(runner=runner)))) as session:
        few, many = session.measure(8, 0.0), session.measure(16, 0.0)
        assert not list(tmp_path.rglob("events.*"))  # its logger writes nothing
    assert few.num_env == 8 and few.steps_per_second == pytest.approx(2 * 8 * 4 / few.iteration_s)
    assert set(many.phases) == set(PHASE_NAMES)
    assert all(many.phases[name] > 0 for name in ("sim_s", "act_s", "learn_s")) and 50e6 < many.memory_bytes < 4e9
    counted = (tmp_path / "counted").read_text().split()  # a warm-up and an iteration, of two GMIs
    assert counted == ["8"] * 4 + ["16"] * 4
