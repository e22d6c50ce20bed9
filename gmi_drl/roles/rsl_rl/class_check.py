"""Checks the classes and options in a configuration against the installed version of rsl_rl."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from rsl_rl.utils import resolve_callable

from gmi_drl.errors import UsageError
from gmi_drl.roles.rsl_rl import version

OF_NO_CLASS = {"class_name", "share_cnn_encoders"}
"""Settings that rsl_rl itself reads; they are not options of a class."""

EXTENSIONS = {
    "rnd_cfg": "rsl_rl.extensions:RandomNetworkDistillation",
    "symmetry_cfg": "rsl_rl.extensions:Symmetry",
}
"""rsl_rl's class for each section of the algorithm that configures an extension."""


def fitted(config: dict[str, Any]) -> dict[str, Any]:
    """A `train_cfg` without options that are unset (null or false) and that rsl_rl's classes do not know.

    Such options are those of other versions.

    Raises:
        UsageError: for a class or function that cannot be found, and for an unknown option that is set.
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
        UsageError: with its `place` in the configuration, if there is none.
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
    """The options of a class of rsl_rl's; None for other classes, whose signature need not have them all."""
    is_theirs = of.__module__.partition(".")[0] == "rsl_rl"
    return set(signature(of).parameters) | OF_NO_CLASS if is_theirs else None
