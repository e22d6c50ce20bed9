"""The agent on a GMI of its own in a training: it plays and evaluates rollouts for its trainer (TDG_EX)."""

from contextlib import closing
from typing import Any

import torch
from torch import Tensor

from gmi_drl.algo.rollout import BATCH, Rollout
from gmi_drl.config.run_config import ppo_of
from gmi_drl.roles.dedicated.remote_task import RemoteTask
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.peer import Peer
from gmi_drl.roles.seeds import seed_of, start_of
from gmi_drl.roles.serving.player import new_actor_critic
from gmi_drl.roles.training.actor import Actor
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.templates.dedicated import chain_of

SENT = (*BATCH, "log_std", "delta", "sums")
"""The tensors of an evaluated rollout that its trainer needs."""

SENT_OF_MEMORIES = ("done", "state")
"""Those that it needs besides if the policy has memories."""


class TrainingAgent(DRL_role):
    """Plays a rollout at each request of its trainer, with the parameters in the request."""

    def GMI_run(self, resume: str | None = None) -> None:
        """Serve until the trainer closes; `resume` as of `Holistic`."""
        config, chain = self.mgr.configure(), chain_of(self.mgr.layout, self.GMI_id)
        trainer = Peer(self.mgr, chain.trainer, self.mgr.waits.trainer)
        simulators = [Peer(self.mgr, gmi_id) for gmi_id in chain.simulators]
        with closing(RemoteTask(simulators, self.mgr.device)) as task:
            noise = torch.Generator(self.mgr.device)
            noise.manual_seed(seed_of(config, start_of(resume), chain.number, "agent"))
            agent, parameters = new_actor_critic(task.spec, config, self.mgr.device)
            actor = Actor(task, agent, ppo_of(config), noise, cuda_graphs=config.cuda_graphs)
            slot, clock = actor.make_slot(), PhaseClock(self.mgr.device)

            def collect(learnt: dict[str, Tensor]) -> dict[str, Any]:
                parameters.copy_(learnt["parameters"])
                agent.normaliser.load(learnt["normaliser"].cpu())
                task.simulated_s = 0.0
                clock.start()
                actor.collect(slot, clock)
                clock.mark("act_s")  # evaluating, too
                phases = {"sim_s": task.simulated_s, "act_s": clock.read()["act_s"]}
                return {"rollout": tensors_of(slot.rollout), "phases": phases}

            names = list(actor.terms.names) if actor.terms else []
            trainer.send({"spec": task.spec.to_json(), "num_env": task.num_env, "terms": names})
            trainer.serve(
                {
                    "collect": collect,
                    "save": lambda _: actor.state_dict(),
                    "load": lambda state: actor.load_state_dict({name: part.cpu() for name, part in state.items()}),
                }
            )


def tensors_of(rollout: Rollout) -> dict[str, Tensor]:
    """The tensors of a rollout that are sent to the trainer, by name."""
    names = SENT if rollout.state is None else (*SENT, *SENT_OF_MEMORIES)
    return {name: getattr(rollout, name) for name in names}
