"""The sections of a layout that join roles on different GMIs: `channels` and `streams`."""

from typing import Annotated, Literal

from pydantic import Field

from gmi_drl.files import FileModel
from gmi_drl.layout.experience import Kind, RolloutForm


class Channels(FileModel):
    """The channels that carry experience from agents to trainers on other GMIs (paper section 4.2)."""

    mode: Literal["MCC", "UCC"] = "MCC"
    """`MCC`: a channel for each kind of experience, whose steps are collected until they fill a transfer. `UCC`, the
    paper's baseline: every tensor is sent by itself, on one queue, when it is made."""

    max_lag: Annotated[int, Field(ge=0)] = 2
    """How many versions the acting policy may be behind the learning one. It sets the number of rollouts that channels
    hold; an agent waits if there is no room. Learners from replay free that room before they learn, if this is not 0:
    so one version more."""

    transfer_bytes: Annotated[int, Field(ge=1)] = 2**20
    """Bytes of one kind of experience that are sent at once."""

    on_gpu: bool = True
    """Whether agents on the GPU of a trainer write into the trainer's memory there, if the backend lets them map it
    (CUDA IPC); else experience goes through the host."""

    @property
    def batches(self) -> int:
        """Batches of rollouts for which a trainer has memory."""
        return self.max_lag + 1

    def steps_of_transfer(self, kind: Kind, steps: int) -> int:
        """Of a kind with so many steps, those that one record announces: as many as make a transfer (MCC), or one."""
        if self.mode == "UCC":
            return 1
        return min(steps, max(1, self.transfer_bytes * steps // max(kind.nbytes, 1)))

    def records_of(self, form: RolloutForm) -> int:
        """Records that announce one rollout."""
        steps = ((kind, form.steps_of(kind)) for kind in form.kinds)
        return sum(-(-count // self.steps_of_transfer(kind, count)) for kind, count in steps)

    def ring_records(self, form: RolloutForm, rollouts: int, agents: int) -> int:
        """Records that may be in the ring from an agent to a trainer: those of twice the agent's share of the places.

        So an agent can run ahead of a trainer that learns, in either mode. It leases a place only if the ring has room
        for all records of a rollout, beside those that it leased and has not sent, so it never waits with a place that
        others wait for.

        Args:
            form: Of a rollout.
            rollouts: R, of a trainer in an update.
            agents: That share the places.
        """
        places = self.batches * rollouts
        return min(places, 2 * -(-places // agents)) * self.records_of(form)


class Streams(FileModel):
    """The streams that carry observations from actors to policy workers, and actions back (SRL, section 2.2.3)."""

    wait_ms: Annotated[float, Field(ge=0)] = 1.0
    """The most milliseconds that a request waits for others of its batch; beyond one, rounded up to whole ones."""

    most_rows: Annotated[int, Field(ge=1)] | None = None
    """The most observations of a batch; None: those of all requests that wait."""

    spin_us: Annotated[float, Field(ge=0)] = 50.0
    """Microseconds of looking for a request or an answer before a process sleeps. With `share_cores` none are spent:
    the peer needs the core."""

    fewest_actors: Annotated[int, Field(ge=1)] | None = None
    """A run starts and goes on with so many actors, and one for each policy worker and each node with trainers; others
    may come later, or die; None: all are needed. An update takes as many rollouts in any case: fewer act more."""
