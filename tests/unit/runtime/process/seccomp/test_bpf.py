"""Whatever a filter is compiled to answers as the filter itself does, read naively."""

from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykubelet.runtime.process.seccomp.bpf import Condition, Filter, Rule, compiled, strictness
from pykubelet.runtime.process.seccomp.numbers import X32_BIT, Architecture, spoken
from unit.runtime.process.seccomp.bpf_machine import answer

X86_64, X32, X86 = spoken("x86_64")
AARCH64, ARM = spoken("aarch64")
KILL, ERRNO, NEW, LOG, ALLOW = 0x8000_0000, 0x5_0001, 0x5_0026, 0x7FFC_0000, 0x7FFF_0000

OPERATORS = ("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ")
EDGES = (0, 1, 2, 0xFFFF_FFFF, 0x1_0000_0000, 0x1_0000_0001, 2**63, 2**64 - 1)
values = st.sampled_from(EDGES) | st.integers(0, 2**64 - 1)
conditions = st.builds(
    Condition, index=st.integers(0, 5), operator=st.sampled_from(OPERATORS), value=values, other=values
)
rules = st.builds(
    Rule, action=st.sampled_from((KILL, ERRNO, LOG, ALLOW)), conditions=st.lists(conditions, max_size=3).map(tuple)
)
numbers = st.integers(0, 24) | st.integers(0, 480)  # few enough that calls often meet a rule
tables = st.dictionaries(numbers, st.lists(rules, min_size=1, max_size=3), max_size=12)


def holds(condition: Condition, argument: int) -> bool:
    value = condition.value
    return {
        "NE": argument != value,
        "LT": argument < value,
        "LE": argument <= value,
        "EQ": argument == value,
        "GE": argument >= value,
        "GT": argument > value,
        "MASKED_EQ": argument & value == condition.other,
    }[condition.operator]


def meant(wanted: Filter, token: int, number: int, arguments: Sequence[int]) -> int:
    bit = number & X32_BIT if token == X86_64.token else 0
    table = next((rules for each, rules in wanted.tables.items() if (each.token, each.bit) == (token, bit)), None)
    if table is None:
        return KILL
    matching = [
        rule.action
        for rule in table.get(number, ())
        if all(holds(condition, arguments[condition.index]) for condition in rule.conditions)
    ]
    if matching:
        return min(matching, key=strictness)
    return wanted.unknown if table and number > max(table) else wanted.default


@settings(max_examples=25, deadline=None)
@given(
    native=tables,
    others=tables,
    third=tables,
    default=st.sampled_from((KILL, ERRNO, ALLOW)),
    calls=st.lists(st.tuples(numbers, st.tuples(*[values] * 6)), min_size=1, max_size=12),
)
@example(native={}, others={}, third={}, default=ALLOW, calls=[(0, (0,) * 6)])
def test_a_compiled_filter_answers_as_its_rules_say(
    native: dict[int, list[Rule]],
    others: dict[int, list[Rule]],
    third: dict[int, list[Rule]],
    default: int,
    calls: list[tuple[int, tuple[int, ...]]],
) -> None:
    x32 = {number | X32_BIT: each for number, each in third.items()}
    wanted = Filter(default=default, unknown=NEW, tables={X86_64: native, X86: others, X32: x32})
    program = compiled(wanted)
    for number, arguments in calls:
        for token, bit in ((X86_64.token, 0), (X86_64.token, X32_BIT), (X86.token, 0), (AARCH64.token, 0)):
            expected = meant(wanted, token, number | bit, arguments)
            assert answer(program, token, number | bit, arguments) == expected


def test_what_is_far_is_reached() -> None:
    """Conditions are many steps long, and a conditional jump reaches 255 of them."""
    wide = {
        number: [Rule(action=ALLOW, conditions=(Condition(index=0, operator="EQ", value=number),))]
        for number in range(0, 400, 2)
    }
    wanted = Filter(default=ERRNO, unknown=NEW, tables={X86_64: wide, X86: wide})
    program = compiled(wanted)
    for token in (X86_64.token, X86.token):
        for number in range(402):
            for argument in (number, number + 1):
                assert answer(program, token, number, (argument,)) == meant(wanted, token, number, (argument,) * 6)


def test_of_two_rules_the_stricter_counts_whatever_their_order() -> None:
    vsock = Rule(action=ERRNO, conditions=(Condition(index=0, operator="EQ", value=40),))
    for rules in ([Rule(action=ALLOW), vsock], [vsock, Rule(action=ALLOW)]):
        program = compiled(Filter(default=KILL, unknown=KILL, tables={X86_64: {41: rules}}))
        assert answer(program, X86_64.token, 41, (40,)) == ERRNO
        assert answer(program, X86_64.token, 41, (2,)) == ALLOW


def test_calls_in_the_private_range_of_arm_do_not_count_as_the_newest() -> None:
    table = {1: [Rule(action=ALLOW)], 0xF0005: [Rule(action=ALLOW)]}
    program = compiled(Filter(default=ERRNO, unknown=NEW, tables={AARCH64: {1: [Rule(action=ALLOW)]}, ARM: table}))
    answers = [answer(program, ARM.token, number) for number in (0, 1, 2, 500, 0xEFFFF, 0xF0000, 0xF0005, 0xF0006)]
    assert answers == [ERRNO, ALLOW, NEW, NEW, NEW, ERRNO, ALLOW, ERRNO]


def test_a_foreign_architecture_is_killed() -> None:
    program = compiled(Filter(default=ALLOW, unknown=ALLOW, tables={X86_64: {}}))
    foreign = Architecture("s390x", 0x8000_0016)
    assert answer(program, X86_64.token, 0) == ALLOW
    assert [answer(program, each.token, each.bit) for each in (X32, X86, AARCH64, foreign)] == [KILL] * 4
