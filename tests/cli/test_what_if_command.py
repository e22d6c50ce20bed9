import json

import pytest

POINTS = [
    {"gmis_per_gpu": 1, "num_env": 8192, "runnable": True, "steps_per_second": 140000, "memory_bytes": 6 * 2**30},
    {"gmis_per_gpu": 4, "num_env": 4096, "runnable": True, "steps_per_second": 60000, "memory_bytes": 4 * 2**30},
]
PROFILE = {
    "schema": "gmi-drl/profile/2",
    "task": "ant",
    "learner": "ppo",
    "node": "one-h100",
    "note": "made up",
    "points": POINTS,
}


@pytest.fixture
def files(tmp_path):
    for name, model, count in (("one-h100", "H100 PCIe", 1), ("two-a30", "A30", 2)):
        gpus = {"model": model, "count": count}
        described = {"name": name, "gpus": gpus, "cpu": {"cores": 32, "memory_gib": 256}}
        (tmp_path / f"{name}.yaml").write_text(json.dumps(described))
    (tmp_path / "points.json").write_text(json.dumps(PROFILE))
    return tmp_path


GIVEN = ["plan", "--profile", "points.json", "--what-if", "one-h100.yaml", "--what-if", "two-a30.yaml"]


def test_machines_are_compared_in_one_table(command_line, files):
    code, out, _ = command_line(*GIVEN, "--price-per-gpu-hour", "H100=4", "--price-per-gpu-hour", "A30=1")
    h100, a30 = (line.split() for line in out.splitlines() if line.startswith(("one-h100", "two-a30")))
    assert code == 0 and h100[-6:] == ["4096", "240.0k", "1.71", "4.63", "measured", "there"]
    assert a30[-4:] == ["480.0k", "1.72", "1.16", "projected"]
    assert "most steps/s: two-a30 by process, 480.0k" in out and "note of the profile: made up" in out
    assert "least for a billion steps: two-a30 by process, 1.16" in out
    assert not (files / "layout.yaml").exists()  # it plans nothing


def test_programs_get_the_same(command_line, files):
    code, out, _ = command_line(*GIVEN, "--format", "json")
    document = json.loads(out)
    h100, a30 = document["cases"]
    assert code == 0 and document["schema"] == "gmi-drl/what-if/1" and h100["point"]["num_env"] == 4096
    assert a30["steps_per_second"] > 1.9 * h100["steps_per_second"] and a30["cost_per_billion_steps"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "--what-if", "one-h100.yaml"], "--what-if compares by a profile: add --profile FILE"),
        ([*GIVEN, "--node", "two-a30.yaml"], "--node: --what-if names every machine that is compared"),
        ([*GIVEN, "--gpus", 1], "--gpus: --what-if names every machine that is compared"),
        ([*GIVEN, "--cluster", "c.yaml"], "--cluster: --what-if names every machine that is compared"),
        ([*GIVEN, "--objective", "steps"], "--objective: --what-if compares steps/s"),
        ([*GIVEN, "-o", "l.yaml"], "--output: --what-if compares and plans nothing"),
        ([*GIVEN, "--explain"], "--explain: --what-if compares and plans nothing"),
        ([*GIVEN, "--num-env", 8], "--num-env: the --profile decides that"),
        ([*GIVEN, "--price-per-gpu-hour", "H100=4"], "no price of A30 is given"),
    ],
)
def test_what_contradicts_a_comparison_is_refused(command_line, files, arguments, message):
    code, _, err = command_line(*arguments)
    assert code == 2 and message in err


def test_a_comparison_in_which_nothing_fits_is_no_plan(command_line, files):
    small = [point | {"memory_bytes": 200 * 2**30} for point in POINTS]
    (files / "points.json").write_text(json.dumps(PROFILE | {"points": small}))
    code, _, err = command_line(*GIVEN)
    assert code == 3 and "one-h100, process: 1 GMI would take 200.0 GiB of a GPU's" in err


def test_a_backend_that_the_profile_does_not_know_is_named_with_those_that_it_does(command_line, files):
    code, _, err = command_line(*GIVEN, "--backend", "mig-ci")
    assert code == 3 and "the profile has no point by mig-ci, it has process" in err
