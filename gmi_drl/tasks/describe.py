"""`python -m gmi_drl.tasks.describe NAME [SETTINGS]`: make a task with one environment and print its sizes.

SETTINGS is the section `task` of a configuration, as JSON.

`launch/task_info.py` runs it and reads the last line of JSON with this schema: simulators print other lines before it.
"""

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from gmi_drl.config.task_names import DESCRIPTION_SCHEMA
from gmi_drl.config.task_section import TaskSettings
from gmi_drl.errors import GmiError
from gmi_drl.processes.signals import leave_to_launcher

if TYPE_CHECKING:
    from gmi_drl.tasks import Task


def main() -> NoReturn:
    """Print the sizes or the error as one line of JSON, then close the task.

    Exit codes: 0; 1 for an error, or if the task fails to close. The process exits by `os._exit`, because some
    simulators do not let it end in order.
    """
    leave_to_launcher()
    task, failed = None, False
    answer: dict[str, Any]
    try:
        task = _make(*sys.argv[1:])
        answer = {"spec": task.spec.to_json()}
    except GmiError as error:
        answer, failed = {"error": {"kind": type(error).__name__, "message": str(error)}}, True
    print(f"\n{json.dumps({'schema': DESCRIPTION_SCHEMA, **answer})}", flush=True)
    os.dup2(2, 1)  # nobody reads stdout any more, so a simulator that prints much would block
    try:
        if task is not None:
            task.close()
    except Exception:
        traceback.print_exc()
        failed = True
    sys.stderr.flush()
    os._exit(1 if failed else 0)


def _make(name: str, settings: str = "{}") -> "Task":
    import torch

    from gmi_drl.tasks import make

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return make(name, num_env=1, device=device, settings=TaskSettings.model_validate_json(settings))


if __name__ == "__main__":
    main()
