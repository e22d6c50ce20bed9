import soak_inputs


def test_fifty_mutated_files_and_command_lines_end_in_words(tmp_path):
    wrong, codes = soak_inputs.soaked(range(50), 11, tmp_path)
    assert wrong == [] and codes.total() == 50 and len(codes) > 15


def test_a_traceback_an_error_that_nobody_foresaw_and_other_exit_codes_are_found():
    said = soak_inputs.Said
    assert soak_inputs.fault(said(1, "", "gmi-drl: unexpected KeyError: 'ctx'\n  please report this"))
    assert soak_inputs.fault(said(2, "", "Traceback (most recent call last):"))
    assert soak_inputs.fault(said(-1, "", "")) == "exit code -1"
    assert soak_inputs.fault(said(2, "", "Got unexpected extra argument (x)")) is None
