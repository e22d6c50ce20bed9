"""One actor and one trainer, without channels between them: a rollout is filled, taken as a batch, and learnt from."""

import threading
from collections import Counter
from functools import partial

import gymnasium
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.algo.rollout import Rollout
from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.comm.streams import StreamSizes
from gmi_drl.comm.streams.inline import InlineStream
from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.layout.experience import FACTS
from gmi_drl.roles.decoupled.update_stats import UpdateExchange
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.roles.workers.forward import Forward, kinds_of
from gmi_drl.roles.workers.policy import serve
from gmi_drl.roles.workers.ring import Ring
from gmi_drl.roles.workers.trainer import ChannelPPO
from gmi_drl.tasks.adapters.gymnasium import GymnasiumTask
from tests.comm.streams.stream_ends import ends

CPU, N, T = torch.device("cpu"), 4, 8


def cart_poles(num_env=N, steps=12):
    """Episodes of 12 steps at most, so that many are cut off."""
    made = partial(gymnasium.make, "CartPole-v1", max_episode_steps=steps)
    return GymnasiumTask(SyncVectorEnv([made] * num_env, autoreset_mode=AutoresetMode.SAME_STEP), seed=3)


def config_of(**learner):
    return RunConfig(learner=PPOConfig(hidden=(8,), horizon=T, minibatches=2, epochs=2, **learner))


def digest(learner):
    return tensor_digest(*learner.state_dict().values())


def tcg_ex(config):
    """Yields the learner of TCG_EX after each iteration."""
    task = cart_poles()
    replica = PPOReplica(task.spec, config, NoReduction(), sample_share=1.0, device=CPU, seed=7)
    replica.attach_task(task, seed=5)
    while True:
        replica.iterate(lambda: Decision.GO_ON)
        yield replica.learner


class Workers:
    """A ring and a trainer. Who acts has the trainer's own agent, so that no version is old.

    Args:
        config: Of the run.
        members: Of the ring.
        inference: Makes the ring's inference from sizes; None: inline.
    """

    def __init__(self, config, members=1, inference=None):
        tasks = [cart_poles(N // members) for _ in range(members)]
        spec, learner = tasks[0].spec, config.learner
        self.learner = ChannelPPO(spec, config, NoReduction(), device=CPU, seed=7)
        self.form = learner.rollout_form(spec, N)
        kinds, self.asked = kinds_of(spec, self.form, members), Counter()
        inference = inference or (lambda kinds, members, respond: InlineStream(*kinds, members, respond))
        noise = torch.Generator().manual_seed(5)
        self.ring = Ring(tasks, inference(kinds, members, self.respond), learner, noise, lambda: 0)
        self.slot = Slot(Rollout(self.form, CPU), cuda_graphs=False)
        self.exchange, self.steps = UpdateExchange(NoReduction().group, (0,)), []

    def respond(self, what, requests, answers):
        self.asked[what] += 1
        Forward()(self.learner.agent, what, requests, answers)
        return 0

    def iterate(self):
        clock = PhaseClock(CPU)
        clock.start()
        self.ring.collect(self.slot, clock, self.steps.append)
        batch = ExperienceBatch.empty(self.form, 1, CPU)
        for kind in self.form.kinds:
            if kind.name != "facts":
                getattr(batch, kind.name)[0] = getattr(self.slot.rollout, kind.name)
        for name, value in self.ring.facts().items():
            batch.facts[0, FACTS.index(name)] = value
        moments = self.learner.take(batch, 0)
        stats = self.exchange.exchange(Decision.GO_ON, batch, 0, {}, told=moments)
        self.learner.learn(stats)
        return stats


class Served:
    """Inference by a thread that answers as a policy worker does, on a real stream."""

    def __init__(self):
        self.agent, self.wait_s = None, 0.0

    def __call__(self, kinds, members, respond):
        request, answer = kinds
        rows = request[0].shape[0]
        self._ends = ends(StreamSizes(request, answer, rows, (0,), ((1,),), members))
        made = self._ends.__enter__()
        server = made.server()
        self.client = made.client(1)
        self._thread = threading.Thread(target=serve, args=(server, self, Forward()))
        self._thread.start()
        return self.client

    def at_least(self, version):
        return self.agent, version

    def close(self):
        self.client.close()
        self._thread.join()
        self._ends.__exit__(None, None, None)
