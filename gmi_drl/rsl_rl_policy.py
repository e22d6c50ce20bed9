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
    actor_obs_normalization: bool | None = None
    critic_obs_normalization: bool | None = None
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

    Values that are unset may be null or, as Isaac Lab dumps them, empty.

    Raises:
        UsageError: for a policy of another class, with settings that no longer exist, or beside `actor` or `critic`.
    """
    if not section.get("policy"):
        return section
    if section.get("actor") or section.get("critic"):
        raise UsageError("rsl_rl: `policy` is the form of rsl-rl-lib before 4.0, which `actor` and `critic` replace")
    given = section["policy"]
    if isinstance(given, dict):
        given = {name: value for name, value in given.items() if value not in (None, {})}
    policy = parse(_Policy, given, "rsl_rl.policy")
    both = bool(section.get("empirical_normalization"))  # of rsl-rl-lib 2, where a network does not say its own
    says = (policy.actor_obs_normalization, policy.critic_obs_normalization)
    normalised = [both if own is None else own for own in says]
    rest = {name: value for name, value in section.items() if name not in ("policy", "empirical_normalization")}
    return rest | {
        "obs_groups": _groups_of_two(section.get("obs_groups") or {}),
        "actor": {**policy.network(normalised[0], policy.actor_hidden_dims), "distribution_cfg": policy.distribution()},
        "critic": policy.network(normalised[1], policy.critic_hidden_dims),
    }


def _groups_of_two(groups: Any) -> Any:
    """What each network observes: that of `policy` is the actor's, and the critic's, too, if it has no group."""
    if not isinstance(groups, dict):
        return groups  # a mistake that is told with the others
    groups = dict(groups)
    actor = groups.pop("policy", ["policy"])
    if "critic" not in groups and list(actor) != ["policy"]:
        raise UsageError("rsl_rl.obs_groups: say which groups of observations `critic` sees")
    return {"actor": actor, **groups}
