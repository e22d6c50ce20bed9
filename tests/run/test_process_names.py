from gmi_drl.run.process_names import file_name_of, gmi_of, is_proxy, name_in, name_of, proxy_of
from tests.launch.test_host_resources import over_two_nodes


def test_every_process_has_a_number_names_and_its_gmi():
    numbers = [*range(4), *map(proxy_of, range(4))]
    assert len(set(numbers)) == len(set(map(name_of, numbers))) == len(set(map(file_name_of, numbers))) == 8
    assert [gmi_of(number) for number in numbers] == [*range(4)] * 2
    assert [is_proxy(number) for number in numbers] == [False] * 4 + [True] * 4


def test_a_process_of_proxies_is_named_by_all_of_its_gmis():
    layout = over_two_nodes()
    assert name_in(layout, proxy_of(1)) == "the proxy of GMIs 1, 2, 3" and name_in(layout, 1) == "GMI 1"
