import pytest

from pykubelet.pod.pinning.cpu_set import format_cpu_set, parse_cpu_set


@pytest.mark.parametrize(("text", "cpus"), [("", set()), ("3", {3}), ("0-2,8", {0, 1, 2, 8}), ("8,0-1,1", {0, 1, 8})])
def test_sets_are_read_as_the_kernel_writes_them(text: str, cpus: set[int]) -> None:
    assert parse_cpu_set(text) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "0,,1", "99999999", "0-65536", "٣", " 1"])
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="range"):
        parse_cpu_set(text)


def test_sets_are_spelled_in_the_shortest_way() -> None:
    assert format_cpu_set({8, 0, 2, 1, 10}) == "0-2,8,10"
    assert format_cpu_set(()) == ""
