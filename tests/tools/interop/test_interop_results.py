from tools.interop.results import Results, has_failed, table

VERSIONS = {"mjlab": "1.6.0", "torch": "2.13.0"}


def test_rows_are_kept_by_task_and_go_when_versions_change(tmp_path):
    path = tmp_path / "interop.json"
    Results(path).add("mjlab", VERSIONS, "A", {"1 GMI": "fails: no"})
    Results(path).add("mjlab", VERSIONS, "A", {"1 GMI": "trains"})
    again = Results(path)
    again.add("envpool", {"envpool": "1.2"}, "C", {"1 GMI": "trains"})
    again.add("mjlab", VERSIONS, "B", {"1 GMI": "trains"})
    assert {task: row["1 GMI"] for task, row in Results(path).sections["mjlab"]["rows"].items()} == {
        "A": "trains",
        "B": "trains",
    }
    again.add("mjlab", VERSIONS | {"torch": "2.14"}, "B", {"1 GMI": "trains"})
    assert list(Results(path).sections["mjlab"]["rows"]) == ["B"] and "envpool" in Results(path).sections


def test_the_page_has_versions_and_a_table_for_each_client(tmp_path):
    results = Results(tmp_path / "interop.json")
    results.add("mjlab", VERSIONS, "A", {"1 GMI": "trains"})
    results.add("gymnasium", {"gymnasium": "1.4.0"}, "B", {"1 GMI": "trains"})
    page = results.page()
    assert "## mjlab\n\nmjlab 1.6.0, torch 2.13.0.\n\nEvery task of its registry" in page
    assert "## gymnasium\n\ngymnasium 1.4.0.\n\n| task | 1 GMI |" in page


def test_a_table_has_all_columns_and_leaves_cells_empty():
    rows = {"A": {"1 GMI": "trains"}, "B": {"1 GMI": "trains", "own": "a|b"}}
    assert table(rows).splitlines() == [
        "| task | 1 GMI | own |",
        "|---|---|---|",
        "| A | trains |  |",
        "| B | trains | a/b |",
    ]


def test_a_failure_is_noticed():
    assert has_failed({"1 GMI": "trains", "2 GMIs": "fails: exit code 1"})
    assert has_failed({"own": "weights differ by up to 0.1 after 5 iterations"})
    assert not has_failed({"1 GMI": "trains", "without": "exit code 2: it needs a motion"})
