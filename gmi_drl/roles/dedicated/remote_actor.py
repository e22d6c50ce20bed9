"""An actor on another GMI, and the replica of a trainer that learns from it."""

from torch import Tensor

from gmi_drl.algo.rollout import Rollout
from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.config.run_config import ppo_of
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.roles.peer import CLOSE, Peer
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.learner import Learner
from gmi_drl.roles.training.ppo_replica import PPOReplica


class RemoteActor:
    """Requests rollouts from an agent on another GMI, with the learner's newest parameters. See `RolloutSource`.

    Args:
        agent: Plays and evaluates.
        learner: Gives the parameters and the normaliser.
        form: Of its rollouts.

    Attributes:
        phases: Seconds of simulating and acting in the last rollout, by the clocks of the GMIs that did it.
    """

    def __init__(self, agent: Peer, learner: Learner, form: RolloutForm) -> None:
        self._agent, self._learner, self._form = agent, learner, form
        self.phases: dict[str, float] = {}

    def make_slot(self) -> Slot:
        """See `RolloutSource`."""
        return Slot(Rollout(self._form, self._learner.device))

    def collect(self, slot: Slot, clock: PhaseClock) -> None:
        """See `RolloutSource`. All of it is one phase here; `RemoteReplica.phases` divides it."""
        learnt = self._learner.state_dict()
        answer = self._agent.request("collect", {name: learnt[name] for name in ("parameters", "normaliser")})
        for name, tensor in answer["rollout"].items():
            getattr(slot.rollout, name).copy_(tensor)
        self.phases = answer["phases"]
        clock.mark("sim_s")

    def state_dict(self) -> dict[str, Tensor]:
        """See `RolloutSource`: the agent's, with those of its simulators."""
        return {name: tensor.cpu() for name, tensor in self._agent.request("save").items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """See `RolloutSource`."""
        self._agent.request("load", state)

    def close(self) -> None:
        """End the agent, which ends its simulators."""
        self._agent.send((CLOSE, None))


class RemoteReplica(PPOReplica):
    """Learns from the rollouts of an agent on another GMI. For arguments see `Learner`."""

    actor: RemoteActor

    def learn_from(self, agent: Peer, num_env: int, num_terms: int) -> None:
        """Learn from this agent from now on, whose simulators have `num_env` environments."""
        form = ppo_of(self.config).rollout_form(self.learner.spec, num_env, num_terms)
        self.act_by(RemoteActor(agent, self.learner, form))

    def phases(self) -> dict[str, float]:
        """See `PPOReplica`. These are of all GMIs of the device; the rest of the time is waiting.

        Evaluating is done by the agent, so it counts as acting.
        """
        phases, remote = super().phases(), self.actor.phases
        waited_s = phases["sim_s"] - sum(remote.values())
        return {**phases, **remote, "sync_s": phases["sync_s"] + waited_s}
