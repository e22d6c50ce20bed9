from dataclasses import replace

import pytest
import torch
from conftest import tiny_config, tiny_layout

from gmi_drl.comm.reduction import NoReduction
from gmi_drl.errors import UsageError
from gmi_drl.roles.player import Agent, Player, initial_agent, load_agent
from gmi_drl.roles.replica import Replica
from gmi_drl.run import checkpoint
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS

CONFIG, SPEC, CPU = tiny_config(seed=5), TASK_SPECS["ant"], torch.device("cpu")
