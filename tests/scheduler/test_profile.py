import json

import pytest
from toys import install_backend

from gmi_drl.errors import UsageError
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.profile import Phases, Profile, ProfilePoint, dump_profile, is_disturbed, load_profile

POINT = {"gmis_per_gpu": 4, "num_env": 4096, "runnable": True, "steps_per_second": 151000, "memory_bytes": 3972844748}
PROFILE = {"schema": "gmi-drl/profile/2", "task": "ant", "learner": "ppo", "node": "dgx-a100", "points": [POINT]}


def test_a_profile_is_read(tmp_path):
    path = tmp_path / "points.json"
    path.write_text(json.dumps(PROFILE))
    profile = load_profile(path)
    assert profile.point(Cut(4, 4096)).steps_per_second == 151000 and profile.point(Cut(4, 4096)).relative_error == 0
    assert profile.point(Cut(4, 128)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a profile"),
        (json.dumps(PROFILE | {"schema": "gmi-drl/profile/9"}), "schema"),
        (json.dumps(PROFILE | {"points": [POINT | {"memory_bytes": -1, "num_envs": 3}]}), "2 mistakes"),
        (json.dumps(PROFILE | {"points": [POINT, POINT]}), "given twice: 4 x 4096"),
        (json.dumps(PROFILE | {"points": [POINT | {"backend": "proces"}]}), "did you mean 'process'"),
        (json.dumps(PROFILE | {"points": [POINT | {"capped": True}]}), "backend 'process' holds no GMI to a share"),
        ('{"points": [{"gmis_per_gpu": 1e400}]}', "gmis_per_gpu"),
    ],
)
def test_what_is_no_profile_is_refused(tmp_path, text, message):
    path = tmp_path / "points.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_profile(path)


def test_points_with_caps_and_without_are_two(tmp_path):
    path, by_mps = tmp_path / "points.json", POINT | {"backend": "mps"}
    path.write_text(json.dumps(PROFILE | {"points": [by_mps, by_mps | {"capped": True, "steps_per_second": 1}]}))
    profile = load_profile(path)
    assert [profile.point(Cut(4, 4096, "mps", capped=capped)).steps_per_second for capped in (False, True)] == [
        151000,
        1,
    ]
    path.write_text(dump_profile(profile))
    assert load_profile(path) == profile


def test_a_file_of_version_1_is_told_what_has_changed(tmp_path):
    path = tmp_path / "points.json"
    rest = {key: value for key, value in PROFILE.items() if key != "learner"}
    path.write_text(json.dumps(rest | {"schema": "gmi-drl/profile/1", "algo": "ppo"}))
    with pytest.raises(UsageError) as caught:
        load_profile(path)
    reads = "this gmi-drl reads 'gmi-drl/profile/2', not 'gmi-drl/profile/1'"
    assert f"schema: {reads}: make it anew, or use the gmi-drl that made it" in str(caught.value)
    assert "algo: of version 1, today `learner`" in str(caught.value)


def test_a_point_is_of_one_backend(install, tmp_path):
    install_backend(install)
    points = tuple(ProfilePoint(**POINT | {"backend": name, "memory_bytes": 1}) for name in ("process", "toy"))
    path = tmp_path / "points.json"
    path.write_text(dump_profile(Profile(task="ant", learner="ppo", node="here", points=points)))
    profile = load_profile(path)
    assert [profile.point(Cut(4, 4096, name)) for name in ("process", "toy")] == list(points)
    assert '"backend":"toy"' in path.read_text() and '"process"' not in path.read_text()


def test_speeds_are_by_backend_and_those_of_earlier_files_are_of_plain_sharing(tmp_path):
    path, speeds = tmp_path / "points.json", {"memory": {"round_s": 1e-6, "bytes_per_second": 5e9}}
    path.write_text(json.dumps(PROFILE | {"speeds": speeds}))
    earlier = load_profile(path)
    path.write_text(json.dumps(PROFILE | {"speeds": {"process": speeds, "mps": speeds}}))
    today = load_profile(path)
    assert today.speeds == {"process": earlier.speeds["process"], "mps": earlier.speeds["process"]}
    path.write_text(dump_profile(today))
    assert load_profile(path) == today
    path.write_text(json.dumps(PROFILE | {"speeds": {"mpss": speeds}}))
    with pytest.raises(UsageError, match="no backend 'mpss'"):
        load_profile(path)


def test_a_profile_is_written_as_it_is_read(tmp_path):
    points = (
        ProfilePoint(gmis_per_gpu=2, num_env=128, runnable=True, steps_per_second=5.5, memory_bytes=7, host_bytes=8)
        .model_copy(update={"relative_error": 0.03, "phases": Phases(sim_s=1.0, act_s=2.0, learn_s=3.0, sync_s=0.0)}),
        ProfilePoint(gmis_per_gpu=1, num_env=64, runnable=False, reason='it said "no"\nand died'),
    )  # fmt: skip
    for known in (points, ()):
        profile = Profile(task="ant", learner="ppo", node="here", note="ä", points=known)
        (tmp_path / "p.json").write_text(dump_profile(profile))
        assert load_profile(tmp_path / "p.json") == profile


@pytest.mark.parametrize("given", ["much", "0", "-1", "nan"])
def test_a_limit_of_disturbance_that_is_no_share_is_refused(monkeypatch, given):
    monkeypatch.setenv("GMI_DRL_DISTURBED", given)
    with pytest.raises(UsageError, match=f"GMI_DRL_DISTURBED={given} is no share above 0"):
        is_disturbed(0.5)
