"""`--apply-mig`: where it is nothing for, it is refused before anything is made."""

from conftest import tiny_layout

from gmi_drl.files import dump_yaml


def test_a_layout_without_mig_is_refused_before_there_is_a_run(command_line, tmp_path):
    (tmp_path / "layout.yaml").write_text(dump_yaml(tiny_layout(1)))
    code, _, error = command_line("train", "layout.yaml", "--apply-mig", "--run-dir", "run")
    assert code == 2 and "--apply-mig is for layouts cut by mig or mig-ci" in error and "leave it out" in error
    assert not (tmp_path / "run").exists()


def test_a_plan_changes_nothing_so_it_has_no_such_option(command_line):
    code, _, error = command_line("plan", "--apply-mig")
    assert code == 2 and "No such option" in error
