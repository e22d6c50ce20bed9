"""The trainer on a GMI of its own: it learns from the rollouts of its agent (TDG_EX, paper section 5.1)."""

from typing import Any

import torch

from gmi_drl.layout.layout import GMI
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.dedicated.remote_actor import RemoteReplica
from gmi_drl.roles.peer import Peer
from gmi_drl.roles.seeds import seed_of
from gmi_drl.roles.training.holistic import Holistic
from gmi_drl.tasks.terms import RewardTerms
from gmi_drl.templates.dedicated import Chain, chain_of
from gmi_drl.workload import spec_of


class Trainer(Holistic):
    """Trains as `Holistic` does, with the same learner; the agent and the simulators are other GMIs.

    Its part of a checkpoint has the states of all its simulators, and its rows are of all GMIs of its device.
    """

    replica: "RemoteReplica"

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """See `Holistic`; at the end it ends the other GMIs of the device."""
        result = super().GMI_run(resume)
        self.replica.actor.close()
        return result

    def set_up_replica(self, start: int) -> None:
        """See `Holistic`."""
        agent = Peer(self.mgr, self._chain.agent, self.mgr.waits.experience)
        info = agent.receive(LOADING_S)
        self.terms = RewardTerms(info["terms"], torch.device("cpu")) if info["terms"] else None
        self.replica = RemoteReplica(
            spec_of(info["spec"]),
            self.config,
            self.reduction,
            sample_share=self.sample_share,
            device=self.mgr.device,
            seed=self.seed(start, "learner"),
        )
        self.replica.learn_from(agent, info["num_env"], len(info["terms"]))

    def seed(self, start: int, purpose: str) -> int:
        """See `Holistic`; the same as of the GMI of TCG_EX with the same rank."""
        return seed_of(self.config, start, self._chain.number, purpose)

    def num_env_of(self, gmi: GMI) -> int:
        """See `Holistic`: that of all simulators of its device."""
        return sum(self.mgr.layout.gmis[one].num_env for one in chain_of(self.mgr.layout, gmi.id).simulators)

    @property
    def _chain(self) -> Chain:
        return chain_of(self.mgr.layout, self.GMI_id)
