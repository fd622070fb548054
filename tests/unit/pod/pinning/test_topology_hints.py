from time import perf_counter

from pykubelet.pod.pinning.topology_hints import Hint, by_distance, by_number, choices, masks, merged, nodes_in


def test_masks_come_smallest_first() -> None:
    assert list(masks([0, 1, 3])) == [0b1, 0b10, 0b1000, 0b11, 0b1001, 0b1010, 0b1011]
    assert nodes_in(0b1010) == [1, 3]


def test_all_agree_on_what_each_of_them_has() -> None:
    found = choices([{"cpu": [Hint(0b01, True), Hint(0b11, False)]}, {"memory": [Hint(0b01, True)]}, {}])
    assert merged(found, 0b11, by_number) == Hint(0b01, True)


def test_what_not_all_prefer_is_not_preferred() -> None:
    found = choices([{"cpu": [Hint(0b01, True)]}, {"memory": [Hint(0b11, True)]}])
    assert merged(found, 0b11, by_number) == Hint(0b01, False)


def test_who_can_have_nothing_spoils_it_for_all() -> None:
    assert merged(choices([{"cpu": []}]), 0b11, by_number) == Hint(0b11, False)
    assert merged(choices([{"gpu": None}]), 0b11, by_number) == Hint(0b11, True)
    assert merged(choices([{"cpu": [Hint(1, True)]}, {"gpu": [Hint(2, True)]}]), 0b11, by_number) == Hint(0b11, False)


def test_nearer_nodes_are_better_than_lower_ones() -> None:
    distances = {0: (10, 30, 11), 1: (30, 10, 30), 2: (11, 30, 10)}
    found = choices([{"cpu": [Hint(0b011, True), Hint(0b101, True)]}])
    assert merged(found, 0b111, by_number) == Hint(0b011, True)
    assert merged(found, 0b111, by_distance(distances)) == Hint(0b101, True)


def test_many_resources_on_many_nodes_are_merged_at_once() -> None:
    """Four resources with 255 hints each could be combined in four thousand million ways."""
    every = [Hint(mask, mask.bit_count() == 1) for mask in masks(range(8))]
    began = perf_counter()
    assert merged([every] * 4, 0xFF, by_number) == Hint(1, True)
    assert perf_counter() - began < 5
