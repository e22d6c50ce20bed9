"""An actor that fails by an exception while a run goes on, in real processes."""

import os
import re
import signal

from conftest import two_cores

from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics

FAILING = """
import os
import gymnasium

class Failing(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    steps = 0

    def reset(self, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 100 and not os.path.exists("MARKER"):
            os.mkdir("MARKER")
            raise ValueError("a fault of the user's")
        return self.observation_space.sample(), 0.0, False, self.steps % 50 == 0, {}

gymnasium.register("Failing-v0", Failing)
"""


@two_cores
def test_the_run_goes_on_without_an_actor_that_fails_and_names_its_exception(tmp_path, monkeypatch):
    (tmp_path / "failing_env.py").write_text(FAILING.replace("MARKER", str(tmp_path / "has failed")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    roles = (("simulator",), ("simulator",), ("agent",), ("trainer",))
    gmis = tuple(
        GMI(id=number, roles=some, cores=(0,), num_env=2 * ("simulator" in some)) for number, some in enumerate(roles)
    )
    layout = Layout(
        task="gymnasium:failing_env:Failing-v0",
        template="workers",
        devices=(Device(kind="cpu", gmis=gmis),),
        groups={"trainers": GmiGroup(members=(3,))},
        channels=Channels(max_lag=1),
        streams=Streams(fewest_actors=1),
        share_cores=True,
    )
    small = PPOConfig(hidden=(8,), horizon=8, minibatches=1)
    config = RunConfig(iterations=10**6, checkpoint_every=10**6, hang_s=60.0, writers=(), learner=small)
    folder, told, alone = RunFolder(tmp_path / "run"), [], []
    folder.create()

    def on_row(row):
        if row["actors"] == 1:
            alone.append(row["iteration"])
        if len(alone) == 20:
            os.kill(os.getpid(), signal.SIGTERM)

    outcome = train(resolve(layout, config, folder), restarts=3, on_row=on_row, on_restart=told.append)
    assert outcome.state == "stopped" and len(alone) >= 20 and read_metrics(folder.metrics_file)[0]["actors"] == 2
    (line,) = told
    said = r"GMI [01]: .*ValueError: a fault of the user's .*failing_env.py.*going on with 1 actor$"
    assert re.match(said, line), line
