import math
from fractions import Fraction
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pykubelet.api.quantity import Format, Quantity, parse

DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
BILLION: Final = 10**9
LARGEST_BINARY: Final = 2**63 - 1  # upstream caps binary quantities here

signs = st.sampled_from(["", "+", "-"])
digits = st.text("0123456789", min_size=1, max_size=25)
fractions = st.one_of(st.just(""), st.text("0123456789", max_size=25).map(lambda text: f".{text}"))
amounts = st.integers(-(10**30), 10**30)
quantities = st.builds(Quantity, amounts, st.sampled_from(["DecimalSI", "DecimalExponent", "BinarySI"]))


def _away_from_zero(exact: Fraction) -> int:
    return math.ceil(exact) if exact >= 0 else math.floor(exact)


@given(signs, digits, fractions, st.sampled_from(sorted(DECIMAL)))
def test_a_decimal_quantity_is_exact_to_the_billionth_and_rounds_away_from_zero(
    sign: str, whole: str, fraction: str, suffix: str
) -> None:
    exact = Fraction(f"{sign}{whole}{fraction}") * Fraction(10) ** DECIMAL[suffix]
    assert parse(f"{sign}{whole}{fraction}{suffix}").nanos == _away_from_zero(exact * BILLION)


@given(signs, digits, fractions, st.sampled_from("eE"), st.integers(-60, 60))
def test_an_exponent_is_exact_to_the_billionth_and_rounds_away_from_zero(
    sign: str, whole: str, fraction: str, e: str, exponent: int
) -> None:
    exact = Fraction(f"{sign}{whole}{fraction}") * Fraction(10) ** exponent
    assert parse(f"{sign}{whole}{fraction}{e}{exponent}").nanos == _away_from_zero(exact * BILLION)


@given(signs, digits, fractions, st.sampled_from(sorted(BINARY)))
def test_a_binary_quantity_is_exact_up_to_the_largest_int64(sign: str, whole: str, fraction: str, suffix: str) -> None:
    exact = Fraction(f"{whole}{fraction}") * 2 ** BINARY[suffix]
    expected = _away_from_zero(exact * BILLION) if exact < LARGEST_BINARY else LARGEST_BINARY * BILLION
    assert abs(parse(f"{sign}{whole}{fraction}{suffix}").nanos) == expected


@given(quantities)
def test_a_quantity_reads_back_what_it_prints(quantity: Quantity) -> None:
    assert parse(str(quantity)).nanos == quantity.nanos or "i" in str(quantity)


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_a_binary_quantity_of_any_int64_reads_back_what_it_prints(whole: int) -> None:
    assert parse(str(Quantity.of(whole, "BinarySI"))) == Quantity.of(whole)


@given(amounts, st.sampled_from(["DecimalSI", "DecimalExponent"]))
def test_what_a_decimal_quantity_prints_is_canonical(nanos: int, format: Format) -> None:
    printed = str(Quantity(nanos, format))
    assert str(parse(printed)) == printed


@given(st.integers(-LARGEST_BINARY, LARGEST_BINARY))
@example(125_000)
def test_a_binary_quantity_that_no_suffix_fits_prints_a_plain_number(whole: int) -> None:
    printed = str(Quantity.of(whole, "BinarySI"))
    again = str(parse(printed))
    assert again == printed or "i" not in printed
    assert str(parse(again)) == again


@given(amounts, amounts)
def test_sums_and_differences_are_exact(one: int, other: int) -> None:
    assert (Quantity(one) + Quantity(other)).nanos == one + other
    assert (Quantity(one) - Quantity(other)).nanos == one - other
    assert (-Quantity(one)).nanos == -one


@given(amounts, st.integers(-(10**6), 10**6))
def test_products_are_exact(amount: int, times: int) -> None:
    assert (Quantity(amount) * times).nanos == amount * times


@given(amounts, amounts)
def test_quantities_are_ordered_like_their_amounts(one: int, other: int) -> None:
    a, b = Quantity(one, "BinarySI"), Quantity(other)
    assert (a < b, a <= b, a == b, a >= b, a > b) == (
        one < other,
        one <= other,
        one == other,
        one >= other,
        one > other,
    )


@given(amounts)
@example(1)
@example(-1)
@example(10**6 + 1)
def test_values_and_thousandths_round_away_from_zero(nanos: int) -> None:
    quantity = Quantity(nanos)
    assert quantity.value == _away_from_zero(Fraction(nanos, BILLION))
    assert quantity.milli == _away_from_zero(Fraction(nanos, 10**6))
    assert quantity.rounded_to_milli().nanos == quantity.milli * 10**6
    assert quantity.sign == (nanos > 0) - (nanos < 0)


def test_equal_amounts_are_equal_and_hash_alike_whatever_their_spelling() -> None:
    spellings = ["1024", "1Ki", "1024000m", "1.024k", "1024e0", "0.0009765625Mi"]
    assert len({parse(text) for text in spellings}) == 1


def test_a_quantity_is_not_a_number() -> None:
    assert parse("1") != 1


def test_only_nothing_is_false() -> None:
    assert not parse("0")
    assert parse("1n")
    assert parse("-1n")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0.5", "500m"),
        ("1500m", "1500m"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("0.5Gi", "512Mi"),
        ("1000000000000000000000", "1000E"),
        ("0.0000000001", "1n"),
        ("00", "0"),
    ],
)
def test_a_spelling_becomes_the_shortest_exact_one(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


def test_a_sum_keeps_the_form_of_its_first_part_that_is_not_nothing() -> None:
    assert str(parse("512Mi") + parse("512Mi")) == "1Gi"
    assert str(parse("0") + parse("1Gi")) == "1Gi"
    assert str(parse("100m") + parse("900m")) == "1"


def test_a_quantity_shows_itself_for_debugging() -> None:
    assert repr(parse("250m")) == "Quantity('250m')"


@pytest.mark.parametrize(
    "text",
    ["", " ", "+", "-", "x", "1x", "1K", "1ki", "1mi", "1 Gi", " 1", "1 ", "1\n", "--1", "1..2", "1.2.3", "1e", "1e+",
     "1e1.5", "1Gi2", "0x10", "1_000", "1,5", "inf", "NaN", "\u0661", "1\x00", "Ki1"],
)  # fmt: skip
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity: write a number with an optional suffix, such as 250m"):
        parse(text)


@pytest.mark.timeout(2)
@pytest.mark.parametrize(
    "text",
    ["1e999999999", "1e999999", "-1e999999", "1E1001", "9" * 5000, "0" * 500_000 + "x", "0" * 500_000, "1" * 500_000,
     "0." + "0" * 500_000 + "1", "1e" + "9" * 500_000, "+" * 500_000, "." * 500_000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_a_hostile_quantity_is_refused_at_once_with_a_short_reason(text: str) -> None:
    with pytest.raises(ValueError, match="quantity") as refused:
        parse(text)
    assert len(str(refused.value)) < 200


@pytest.mark.timeout(2)
@pytest.mark.parametrize("text", ["1e-999999", "0." + "0" * 900 + "1", "1" + "0" * 900 + "e-999"])
def test_what_is_too_small_to_see_counts_as_the_smallest_amount(text: str) -> None:
    assert parse(text).nanos == 1


@pytest.mark.timeout(2)
def test_the_largest_amounts_stay_exact_and_printable() -> None:
    assert parse("1e1000").nanos == 10**1009
    assert parse(str(parse("9" * 900 + "e999"))) == parse("9" * 900 + "e999")
