"""What an actor with a policy worker asks for."""

from types import SimpleNamespace

from gmi_drl.roles.workers.ends import VersionAtLease


class Late:
    """Parameters that are published while somebody waits for them."""

    version = None

    def newest_version(self):
        return self.version

    def await_first(self):
        self.version = 7


def test_an_actor_waits_for_the_first_version_itself():
    """A policy worker that has none cannot answer: then the actor would blame it, not the trainer."""
    follower = VersionAtLease()
    follower.update(SimpleNamespace(parameters=Late()))
    assert follower.version == 7
