from gmi_drl.run.process_names import file_name_of, gmi_of, is_proxy, name_of, proxy_of


def test_every_process_has_a_number_names_and_its_gmi():
    numbers = [*range(4), *map(proxy_of, range(4))]
    assert len(set(numbers)) == len(set(map(name_of, numbers))) == len(set(map(file_name_of, numbers))) == 8
    assert [gmi_of(number) for number in numbers] == [*range(4)] * 2
    assert [is_proxy(number) for number in numbers] == [False] * 4 + [True] * 4
