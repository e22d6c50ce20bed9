"""What a configuration names and gives to rsl_rl's classes, held against what the installed version has."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from rsl_rl.utils import resolve_callable

from gmi_drl.errors import UsageError
from gmi_drl.roles.rsl_rl import version

OF_NO_CLASS = {"class_name", "share_cnn_encoders"}
"""Settings that rsl_rl reads beside its classes."""

EXTENSIONS = {
    "rnd_cfg": "rsl_rl.extensions:RandomNetworkDistillation",
    "symmetry_cfg": "rsl_rl.extensions:Symmetry",
}
"""By setting of the algorithm, the class of rsl_rl's that it is of."""


def fitted(config: dict[str, Any]) -> dict[str, Any]:
    """A `train_cfg` without what is unset (null or false) and unknown to rsl_rl's classes: an option of other versions.

    Raises:
        UsageError: for a class or function that cannot be found, and for options that are set and unknown.
    """
    places = {name: dict(config[name]) for name in ("actor", "critic", "algorithm")}
    for name, section in places.items():
        if section.get("distribution_cfg"):
            section["distribution_cfg"] = _fitted(
                section["distribution_cfg"], f"learner.runner.{name}.distribution_cfg"
            )
        places[name] = _fitted(section, f"learner.runner.{name}")
    algorithm = places["algorithm"]
    for key, extension in EXTENSIONS.items():
        if algorithm.get(key):
            algorithm[key] = _fitted(algorithm[key], f"learner.runner.algorithm.{key}", extension)
    if symmetry := algorithm.get("symmetry_cfg"):
        find("learner.runner.algorithm.symmetry_cfg.data_augmentation_func", symmetry["data_augmentation_func"])
    return config | places


def find(place: str, name: Any) -> Callable[..., Any]:
    """The class or function of this name.

    Raises:
        UsageError: if there is none; it tells the place in the configuration.
    """
    try:
        found: Callable[..., Any] = resolve_callable(name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        remedy = "install the package that has it, or put its folder on PYTHONPATH"
        raise UsageError(f"{place}: {name} cannot be found: {remedy} ({error})") from None
    return found


def _fitted(section: dict[str, Any], place: str, usual: str = "PPO") -> dict[str, Any]:
    name = section.get("class_name", usual)
    known = _options(find(f"{place}.class_name", name))
    unknown = {} if known is None else {key: value for key, value in section.items() if key not in known}
    for key, value in unknown.items():
        if value not in (None, False):
            raise UsageError(
                f"{place}.{key}: {name} of rsl-rl-lib {version.text(version.installed())} does not have it"
            )
    return {key: value for key, value in section.items() if key not in unknown}


def _options(of: Callable[..., Any]) -> set[str] | None:
    """What a class of rsl_rl's takes; None for those of others, which may take theirs in other ways."""
    is_theirs = of.__module__.partition(".")[0] == "rsl_rl"
    return set(signature(of).parameters) | OF_NO_CLASS if is_theirs else None
