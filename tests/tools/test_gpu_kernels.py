"""Kernels for a GPU, compiled where there is none."""

import importlib.util

import pytest

if importlib.util.find_spec("mujoco_warp") is None:
    pytest.skip("needs MuJoCo Warp", allow_module_level=True)

import warp as wp

from gmi_drl.tasks.sim import warp_kernels
from tools.gpu_kernels import asked_by, main, on_gpu, stand_in

ELF = b"\x7fELF"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    return tmp_path


def launch(**more):
    marks = wp.zeros(4, dtype=bool, device="cpu")
    wp.launch(warp_kernels.mark_where, dim=4, inputs=[marks, marks], **more)


def test_a_launch_asks_for_the_file_that_warp_compiles_ahead_of_time(cache):
    with on_gpu(stand_in(90, 132)) as asked:
        launch()
    assert asked.missing() == list(asked.files)
    (theirs,) = wp.compile_aot_module(warp_kernels, arch=90, use_ptx=False)
    assert [*asked.files] == [theirs] and asked.missing() == []
    assert theirs.name.endswith(".sm90.cubin") and theirs.read_bytes().startswith(ELF)


def test_what_was_asked_for_is_compiled_for_that_gpu(cache):
    with on_gpu(stand_in(80, 108)) as asked:
        launch(block_dim=64)
    (file,) = asked.files
    asked.compile()
    assert asked.missing() == [] and file.name.endswith(".sm80.cubin")
    file.with_name(f"{file.name.removesuffix('.sm80.cubin')}.meta").unlink()
    assert asked.missing() == [file], "Warp would compile it anew"


def test_each_size_of_blocks_has_a_file_of_its_own(cache):
    with on_gpu(stand_in(90, 132)) as asked:
        launch()
        launch(block_dim=256)  # Warp's own
        launch(block_dim=32)
        launch()
    assert len(asked.files) == 2


def test_afterwards_launches_are_launches():
    with on_gpu(stand_in(90, 132)):
        pass
    marked, rows = wp.zeros(4, dtype=bool, device="cpu"), wp.array([0, 1, 1, 0], dtype=bool, device="cpu")
    wp.launch(warp_kernels.mark_where, dim=4, inputs=[rows, marked])
    assert marked.numpy().tolist() == [False, True, True, False]


def test_files_of_a_task_depend_on_its_model_alone(cache, capsys):
    gpu = stand_in(90, 132)
    files = set(asked_by(["ball_balance"], gpu).files)
    assert len(files) > 40 and {file.name.rpartition(".sm")[2] for file in files} == {"90.cubin"}
    assert set(asked_by(["ball_balance"], gpu, num_env=1000).files) == files, "on no number of environments"
    assert not set(asked_by(["anymal"], gpu).files) >= files
    assert main(["ball_balance", "--check"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"{len(files)} modules, {len(files)} missing"
