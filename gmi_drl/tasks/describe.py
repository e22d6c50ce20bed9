"""`python -m gmi_drl.tasks.describe NAME`: make a task with one world and print its sizes, for `launch.describe`.

The last line of JSON with this schema is the answer; simulators print lines of their own before it.
"""

import json
import os
import sys
from dataclasses import asdict
from typing import NoReturn

from gmi_drl.errors import GmiError
from gmi_drl.task_names import DESCRIPTION_SCHEMA


def main() -> NoReturn:
    """Print the sizes, or the error that there was, as one line of JSON, and end at once: not every simulator would."""
    try:
        answer = {"spec": _describe(sys.argv[1])}
    except GmiError as error:
        answer = {"error": {"kind": type(error).__name__, "message": str(error)}}
    print(f"\n{json.dumps({'schema': DESCRIPTION_SCHEMA, **answer})}", flush=True)
    sys.stderr.flush()
    os._exit(1 if "error" in answer else 0)


def _describe(name: str) -> dict[str, object]:
    import torch

    from gmi_drl.tasks import make

    task = make(name, num_env=1, device="cuda" if torch.cuda.is_available() else "cpu")
    return asdict(task.spec)


if __name__ == "__main__":
    main()
