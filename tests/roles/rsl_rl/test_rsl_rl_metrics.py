from threading import Event
from types import SimpleNamespace

import pytest
import torch

from gmi_drl.tasks import make

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

from gmi_drl.roles.rsl_rl import metrics as module
from gmi_drl.roles.rsl_rl.metrics import IterationMetrics
from gmi_drl.tasks.rsl_rl_env import RslRlEnv

N, SCALE = 4, 0.05
NONE = torch.zeros(N, dtype=torch.bool)


class Log:
    def __init__(self):
        self.steps, self.lines = 0, []

    def process_env_step(self, *step):
        self.steps += 1

    def log(self, **facts):
        self.lines.append(facts)


def test_episodes_go_on_over_iterations_and_bad_ones_do_not_count():
    ledger = IterationMetrics(RslRlEnv(make("ant", num_env=N), SCALE))
    ledger.process_env_step(torch.full((N,), 2 * SCALE), NONE, {"bad": NONE, "valid": ~NONE})
    assert ledger.pop_sums().tolist() == pytest.approx([2 * N, 0, 0, 0, 0])
    bad, done = torch.tensor([True, False, False, False]), torch.tensor([True, True, False, False])
    ledger.process_env_step(torch.full((N,), 3 * SCALE), done, {"bad": bad, "valid": ~bad})
    assert ledger.pop_sums().tolist() == pytest.approx([3 * N, 1, 5, 2, 1])
    assert ledger.running_episodes[1].tolist() == [0, 0, 2, 2]


def test_the_logger_gets_everything_and_counts_the_whole_run():
    log = Log()
    ledger = IterationMetrics(RslRlEnv(make("ant", num_env=N), SCALE), log, iterations=10)
    ledger.process_env_step(torch.zeros(N), NONE, {"bad": NONE, "valid": ~NONE})
    for it in (4, 5):
        ledger.log(it=it, start_it=it, total_it=it + 1, collect_time=1.0, learn_time=2.0, loss_dict={"value": 3.0})
    assert log.steps == 1 and [(line["it"], line["start_it"], line["total_it"]) for line in log.lines] == [
        (4, 4, 10),
        (5, 4, 10),
    ]
    assert (ledger.collect_s, ledger.learn_s, ledger.losses) == (1.0, 2.0, {"value": 3.0})


class Broken(Log):
    def log(self, **facts):
        raise OSError("the service has gone")

    def stop_logging_writer(self):
        raise AssertionError("told once too often")


def test_a_logger_that_fails_is_dropped_with_a_warning(capsys):
    ledger = IterationMetrics(RslRlEnv(make("ant", num_env=N), SCALE), Broken())
    for it in (1, 2):
        ledger.process_env_step(torch.ones(N), NONE, {"bad": NONE, "valid": ~NONE})
        ledger.log(it=it, collect_time=1.0, learn_time=2.0, loss_dict={"value": 3.0})
    ledger.save_model("model_2.pt", 2)
    ledger.close()
    assert ledger.warnings == ["rsl_rl's logger failed: OSError: the service has gone: the run goes on without it"]
    assert f"Warning: {ledger.warnings[0]}\n" in capsys.readouterr().out
    assert ledger.pop_sums()[0] == 2 * N / SCALE and ledger.losses == {"value": 3.0}


def test_the_logger_ends_and_its_writer_is_closed():
    ends, log = [], Log()
    log.stop_logging_writer = lambda: ends.append("stopped")
    log.writer = SimpleNamespace(close=lambda: ends.append("closed"))
    IterationMetrics(RslRlEnv(make("ant", num_env=N), SCALE), log).close()
    assert ends == ["stopped", "closed"]


def test_a_logger_that_does_not_come_to_its_end_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(module, "STOP_S", 0.01)
    forever, log = Event(), Log()
    log.stop_logging_writer = forever.wait
    ledger = IterationMetrics(RslRlEnv(make("ant", num_env=N), SCALE), log)
    ledger.close()
    assert "has not finished within" in ledger.warnings[0]
    forever.set()


def test_a_writer_that_cannot_be_closed_gives_a_warning():
    def close():
        raise OSError("the disk is full")

    log = Log()
    log.stop_logging_writer, log.writer = lambda: None, SimpleNamespace(close=close)
    ledger = IterationMetrics(RslRlEnv(make("ant", num_env=N), SCALE), log)
    ledger.close()
    assert ledger.warnings == ["rsl_rl's logger failed: OSError: the disk is full: the run goes on without it"]
