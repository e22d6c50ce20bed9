"""Probes that go wrong, or tell more, for tests."""

import os
import time

from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.errors import GmiError, MachineError
from gmi_drl.roles.probes.ppo_probe import PPOProbe


class Broken(PPOProbe):
    """Runs with few environments; with 16 it fails, with 32 it dies, with 64 it hangs, with 128 it lacks something,
    with 256 it has a bug.
    """

    def make_task(self, num_env, seed):
        if num_env == 16:
            raise GmiError("no room for 16")
        if num_env == 32:
            os._exit(9)
        if num_env == 64:
            time.sleep(600)
        if num_env == 128:
            raise MachineError("mujoco is missing")
        if num_env == 256:
            raise ValueError("a bug in my simulator")
        return super().make_task(num_env, seed)


class Stillborn(PPOProbe):
    """Dies before it is ready."""

    def GMI_run(self, **params):
        os._exit(7)


class Weighed(PPOProbe):
    """Tells by which share its gradients were weighed, what was learnt, and in $CLOSED which worlds were closed."""

    def make_task(self, num_env, seed):
        task = super().make_task(num_env, seed)

        def close():
            with open(os.environ["CLOSED"], "a") as closed:
                closed.write(f"{num_env}\n")

        task.close = close
        return task

    def _measure(self, num_env, seconds):
        row = super()._measure(num_env, seconds)
        ppo = self.replica.learner.updater
        return {**row, "sample_share": ppo.sample_share, "digest": tensor_digest(*ppo.state_dict().values())}
