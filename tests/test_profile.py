import json

import pytest

from gmi_drl.errors import UsageError
from gmi_drl.profile import load_profile

POINT = {"gmis_per_gpu": 4, "num_env": 4096, "runnable": True, "steps_per_second": 151000, "memory_bytes": 3972844748}
PROFILE = {"schema": "gmi-drl/profile/1", "task": "ant", "algo": "ppo", "node": "dgx-a100", "points": [POINT]}


def test_a_profile_is_read(tmp_path):
    path = tmp_path / "points.json"
    path.write_text(json.dumps(PROFILE))
    profile = load_profile(path)
    assert profile.point(4, 4096).steps_per_second == 151000 and profile.point(4, 128) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a profile"),
        (json.dumps(PROFILE | {"schema": "gmi-drl/profile/9"}), "schema"),
        (json.dumps(PROFILE | {"points": [POINT | {"memory_bytes": -1, "num_envs": 3}]}), "2 mistakes"),
        ('{"points": [{"gmis_per_gpu": 1e400}]}', "gmis_per_gpu"),
    ],
)
def test_what_is_no_profile_is_refused(tmp_path, text, message):
    path = tmp_path / "points.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_profile(path)
