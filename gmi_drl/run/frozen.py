"""The copies of frozen policies in the folder of the run in which they act."""

from gmi_drl.config.run_config import RunConfig
from gmi_drl.run.checkpoint import list_checkpoints
from gmi_drl.run.folder import RunFolder


def with_own_copies(config: RunConfig, folder: RunFolder) -> RunConfig:
    """The configuration of a run, with its own copies of frozen policies where it has them.

    So a run is played with what it was trained beside, wherever the runs are now that its configuration names.
    """
    policies = dict(config.policies)
    for name, section in config.policies.items():
        copy = folder.frozen(name)
        if section.checkpoint is not None and list_checkpoints(copy.checkpoints):
            policies[name] = section.model_copy(update={"checkpoint": str(copy.path.resolve())})
    return config.model_copy(update={"policies": policies})
