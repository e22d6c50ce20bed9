"""An actor on another GMI, and a replica that learns from it: what a trainer on a GMI of its own has."""

from torch import Tensor

from gmi_drl.algo.rollout import Rollout
from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.config.run_config import ppo_of
from gmi_drl.roles.peer import CLOSE, Peer
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.learner import Learner
from gmi_drl.roles.training.ppo_replica import PPOReplica


class RemoteActor:
    """Has an agent play with what the learner has learnt, and takes what it has met; see `roles.replica.RolloutSource`.

    Args:
        agent: Who plays, and judges.
        learner: Whose parameters and normaliser it acts with.
        horizon: Steps of a rollout.
        num_env: Of all simulators of the agent.
        num_terms: Terms of the reward that are told.

    Attributes:
        phases: Seconds that simulating and acting took in the last rollout, by the clocks of those who did it.
    """

    def __init__(self, agent: Peer, learner: Learner, *, horizon: int, num_env: int, num_terms: int) -> None:
        self._agent, self._learner = agent, learner
        self._shape = horizon, num_env, learner.spec.num_obs, learner.spec.num_actions
        self._num_terms = num_terms
        self.phases: dict[str, float] = {}

    def make_slot(self) -> Slot:
        """See `RolloutSource`."""
        return Slot(Rollout(*self._shape, self._learner.device, self._num_terms))

    def collect(self, slot: Slot, clock: PhaseClock) -> None:
        """See `RolloutSource`: all of it is one phase here, `RemoteReplica.phases` parts it."""
        learnt = self._learner.state_dict()
        told = self._agent.request("collect", {name: learnt[name] for name in ("parameters", "normaliser")})
        for name, tensor in told["rollout"].items():
            getattr(slot.rollout, name).copy_(tensor)
        self.phases = told["phases"]
        clock.mark("sim_s")

    def state_dict(self) -> dict[str, Tensor]:
        """See `RolloutSource`: that of the agent, with its simulators' worlds."""
        return {name: tensor.cpu() for name, tensor in self._agent.request("save").items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """See `RolloutSource`."""
        self._agent.request("load", state)

    def let_go(self) -> None:
        """Let the agent go, and so its simulators."""
        self._agent.send((CLOSE, None))


class RemoteReplica(PPOReplica):
    """Learns on this GMI from what another one has met. For arguments see `Learner`."""

    actor: RemoteActor

    def learn_from(self, agent: Peer, num_env: int, num_terms: int) -> None:
        """Have this agent act from now on, in so many worlds of its simulators."""
        horizon = ppo_of(self.config).horizon
        self.act_by(RemoteActor(agent, self.learner, horizon=horizon, num_env=num_env, num_terms=num_terms))

    def phases(self) -> dict[str, float]:
        """See `PPOReplica`, of all GMIs of the device: what nobody simulated, acted or learnt in is waiting.

        Judging is the agent's, so part of acting here.
        """
        phases, told = super().phases(), self.actor.phases
        waited_s = phases["sim_s"] - sum(told.values())
        return {**phases, **told, "sync_s": phases["sync_s"] + waited_s}
