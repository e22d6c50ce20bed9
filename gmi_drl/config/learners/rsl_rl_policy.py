"""Converts networks in the form of earlier rsl-rl-lib, Isaac Lab and mjlab into the current form.

Before 4.0 there was one section `policy` for `actor` and `critic`. In 4 these had the keys of the action noise.
"""

from typing import Any, Literal

from pydantic import Field

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, parse

RECURRENT = "ActorCriticRecurrent"
NOISE = ("stochastic", "init_noise_std", "noise_std_type", "state_dependent_std")
MEMORY = ("rnn_type", "rnn_hidden_dim", "rnn_num_layers")
OPTIONAL = ("cnn_cfg", "distribution_cfg")


class _Policy(FileModel):
    """The section for both networks, with its defaults."""

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
        return {"class_name": "RNNModel", **shared, **{name: getattr(self, name) for name in MEMORY}}


def with_two_networks(section: dict[str, Any]) -> dict[str, Any]:
    """A `train_cfg` in the current form; one without `policy` is returned unchanged.

    Unset values may be null or, as Isaac Lab dumps them, empty.

    Raises:
        UsageError: for a policy of another class, with settings that no longer exist, or beside `actor` or `critic`.
    """
    if not section.get("policy"):
        return section
    if section.get("actor") or section.get("critic"):
        raise UsageError(
            "learner.runner: `policy` is the form of rsl-rl-lib before 4.0, which `actor` and `critic` replace"
        )
    given = section["policy"]
    if isinstance(given, dict):
        given = {name: value for name, value in given.items() if value not in (None, {})}
        if "rnn_hidden_size" in given:  # its name before 2.3
            given["rnn_hidden_dim"] = given.pop("rnn_hidden_size")
        _require_known_class(given.get("class_name", "ActorCritic"))
    policy = parse(_Policy, given, "learner.runner.policy")
    both = bool(section.get("empirical_normalization"))  # of rsl-rl-lib 2, where a network does not say its own
    own_settings = (policy.actor_obs_normalization, policy.critic_obs_normalization)
    normalised = [both if own is None else own for own in own_settings]
    rest = {name: value for name, value in section.items() if name not in ("policy", "empirical_normalization")}
    actor = policy.network(normalised[0], policy.actor_hidden_dims)
    return rest | {
        "obs_groups": _groups_of_two(section.get("obs_groups") or {}),
        "actor": actor | {"distribution_cfg": _distribution(policy.model_dump())},
        "critic": policy.network(normalised[1], policy.critic_hidden_dims),
    }


def of_today(network: Any) -> Any:
    """An `actor` or `critic` as rsl-rl-lib 5 takes it.

    Null values that it does not accept are left out, as by mjlab's runner. Noise in the form of rsl-rl-lib 4 becomes a
    `distribution_cfg`, as in Isaac Lab.
    """
    if not isinstance(network, dict):
        return network  # a mistake, reported with the others
    unset = {name for name in OPTIONAL if network.get(name) is None} | set(NOISE)
    if "rnn_type" in network and network["rnn_type"] is None:
        unset |= set(MEMORY)
    today = {name: value for name, value in network.items() if name not in unset}
    if network.get("stochastic") and "distribution_cfg" not in today:
        today["distribution_cfg"] = _distribution(network)
    return today


def _distribution(noise: dict[str, Any]) -> dict[str, Any]:
    """The `distribution_cfg` of the actions."""
    name = "HeteroscedasticGaussianDistribution" if noise.get("state_dependent_std") else "GaussianDistribution"
    std, kind = noise.get("init_noise_std"), noise.get("noise_std_type")
    return {"class_name": name, "init_std": 1.0 if std is None else std, "std_type": kind or "scalar"}


def _require_known_class(name: Any) -> None:
    if name not in ("ActorCritic", RECURRENT):
        raise UsageError(
            f"learner.runner.policy.class_name: {name} cannot be trained, only ActorCritic and {RECURRENT}: "
            "networks of your own are named by the class_name of `actor` and `critic`, the form of rsl-rl-lib 5"
        )


def _groups_of_two(groups: Any) -> Any:
    """The groups of observations of both networks: `policy` is that of the actor, and of a critic without a group."""
    if not isinstance(groups, dict):
        return groups  # a mistake, reported with the others
    groups = dict(groups)
    actor = groups.pop("policy", ["policy"])
    if "critic" not in groups and list(actor) != ["policy"]:
        raise UsageError("learner.runner.obs_groups: say which groups of observations `critic` sees")
    return {"actor": actor, **groups}
