"""What a role of ours does first, whether it trains, probes or serves."""

from gmi_drl.config import RunConfig, load_config
from gmi_drl.device.precision import set_precision
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.run.folder import RunFolder


def configured(mgr: GMI_manager) -> RunConfig:
    """The configuration of this GMI's run; what of it is for a whole process is in force from now on."""
    config = load_config(RunFolder(mgr.run_folder).config_file)
    set_precision(mgr.device, tf32=config.tf32)
    return config
