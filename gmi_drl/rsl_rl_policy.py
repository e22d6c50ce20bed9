"""The `policy` of rsl-rl-lib before 4.0, which many configurations of Isaac Lab have, as `actor` and `critic`."""

from typing import Any, Literal

from pydantic import Field

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, parse

RECURRENT = "ActorCriticRecurrent"


class _Policy(FileModel):
    """One section for both networks, with the defaults it had."""

    class_name: Literal["ActorCritic", "ActorCriticRecurrent"] = "ActorCritic"
    init_noise_std: float = Field(default=1.0, gt=0)
    noise_std_type: Literal["scalar", "log"] = "scalar"
    state_dependent_std: bool = False
    actor_obs_normalization: bool = False
    critic_obs_normalization: bool = False
    actor_hidden_dims: tuple[int, ...] = (256, 256, 256)
    critic_hidden_dims: tuple[int, ...] = (256, 256, 256)
    activation: str = "elu"
    rnn_type: str = "lstm"
    rnn_hidden_dim: int = 256
    rnn_num_layers: int = 1

    def network(self, normalised: bool, hidden: tuple[int, ...]) -> dict[str, Any]:
        """One of the two networks."""
        shared = {"hidden_dims": list(hidden), "activation": self.activation, "obs_normalization": normalised}
        if self.class_name != RECURRENT:
            return {"class_name": "MLPModel", **shared}
        memory = {name: getattr(self, name) for name in ("rnn_type", "rnn_hidden_dim", "rnn_num_layers")}
        return {"class_name": "RNNModel", **shared, **memory}

    def distribution(self) -> dict[str, Any]:
        """Of the actions."""
        name = "HeteroscedasticGaussianDistribution" if self.state_dependent_std else "GaussianDistribution"
        return {"class_name": name, "init_std": self.init_noise_std, "std_type": self.noise_std_type}


def with_two_networks(section: dict[str, Any]) -> dict[str, Any]:
    """A `train_cfg` in today's form; one that has no `policy` is returned as it is.

    Raises:
        UsageError: for a policy of another class, with settings that no longer exist, or beside `actor` or `critic`.
    """
    if not section.get("policy"):
        return section
    if "actor" in section or "critic" in section:
        raise UsageError("rsl_rl: `policy` is the form of rsl-rl-lib before 4.0, which `actor` and `critic` replace")
    section = dict(section)
    policy = parse(_Policy, section.pop("policy"), "rsl_rl.policy")
    normalised = bool(section.pop("empirical_normalization", False))  # until 2.3, for both
    groups = dict(section.get("obs_groups") or {})
    if "policy" in groups:
        groups["actor"] = groups.pop("policy")
    actor = policy.network(normalised or policy.actor_obs_normalization, policy.actor_hidden_dims)
    critic = policy.network(normalised or policy.critic_obs_normalization, policy.critic_hidden_dims)
    new = {"obs_groups": groups, "actor": {**actor, "distribution_cfg": policy.distribution()}, "critic": critic}
    return section | new
