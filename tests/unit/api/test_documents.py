import json
import tracemalloc
from typing import Any

import pytest

from pykubelet.api.documents import MAX_BYTES, DocumentError, read_documents


def read(text: str | bytes) -> Any:
    """The value of the one document in a text."""
    (document,) = read_documents(text.encode() if isinstance(text, str) else text)
    return document.value


def refused(text: str | bytes) -> DocumentError:
    with pytest.raises(DocumentError) as error:
        read_documents(text.encode() if isinstance(text, str) else text)
    return error.value


# --- scalars, as Kubernetes reads them


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("True", True), ("TRUE", True), ("yes", True), ("Yes", True), ("on", True), ("ON", True),
        ("y", True), ("Y", True), ("false", False), ("no", False), ("NO", False), ("off", False), ("Off", False),
        ("n", False), ("N", False), ("tRue", "tRue"), ("yEs", "yEs"),
        ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None), ("nULL", "nULL"), ("none", "none"),
        ("0", 0), ("5", 5), ("-5", -5), ("+5", 5), ("-0", 0), ("00", 0), ("1_000", 1000), ("1_", 1), ("_1", "_1"),
        ("0644", 0o644), ("-0644", -0o644), ("0o644", 0o644), ("0O644", 0o644), ("089", 89),
        ("0x1F", 31), ("0X1f", 31), ("-0x10", -16), ("0x", "0x"), ("0xg", "0xg"), ("0b101", 5), ("0B101", 5),
        ("0b2", "0b2"), ("9223372036854775808", 2**63), ("1" + "0" * 60, 10**60),
        ("1.5", 1.5), (".5", 0.5), ("-.5", -0.5), ("5.", 5), ("1.0", 1), ("1e3", 1000), ("1E-1", 0.1), ("1_0.5", 10.5),
        ("1e400", "1e400"), (".", "."), ("1.2.3", "1.2.3"), ("+", "+"), ("1e", "1e"), ("._5", "._5"),
        (".inf", ".inf"), (".NaN", ".NaN"), ("inf", "inf"), ("nan", "nan"),
        ("12:30", "12:30"), ("190:20:30", "190:20:30"), ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"), ("1Gi", "1Gi"), ("=", "="), ("v1", "v1"),
        ('"true"', "true"), ("'5'", "5"), ('"~"', "~"), ("! 5", "5"), ('""', ""), ("'it''s'", "it's"),
        ('"\\x41\\u00e9\\n"', "A\u00e9\n"),
    ],
)  # fmt: skip
def test_scalars_mean_what_they_mean_to_kubernetes(text: str, value: object) -> None:
    found = read(f"a: {text}")["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!str 5", "5"), ("!!str", ""), ("!!int '5'", 5), ("!!float 1.5", 1.5), ("!!float 1", 1), ("!!bool yes", True),
        ("!!null ''", None), ("!!binary 'AA =='", "AA=="), ("!!map {b: 1}", {"b": 1}), ("!!seq [1]", [1]),
        ("!<tag:yaml.org,2002:str> 5", "5"),
    ],
)  # fmt: skip
def test_standard_tags_are_honoured(text: str, value: object) -> None:
    found = read(f"a: {text}")["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    ["!custom 1", "!custom {}", "!custom []", "!!python/object/apply:os.system ['true']", "!!python/name:os.system",
     "!!set {a}", "!!omap [a: 1]", "!!timestamp 2024-01-01", "!!map [1]", "!!seq {a: 1}", "!!int x", "!!int true",
     "!!bool 1", "!!null x", "!!float x"],
)  # fmt: skip
def test_any_other_tag_is_refused_where_it_stands(text: str) -> None:
    error = refused(f"first: 1\na: {text}")
    assert (error.line, error.column) == (2, 4)


def test_a_tag_handle_cannot_smuggle_a_tag_in() -> None:
    assert refused("%TAG ! tag:example.com,2000:\n---\na: !x 1").line == 3


def test_block_texts_keep_or_fold_their_lines() -> None:
    assert read("a: |\n  x\n  y\nb: >-\n  x\n  y\n") == {"a": "x\ny\n", "b": "x y"}


def test_windows_line_ends_are_line_ends() -> None:
    assert read("a: 1\r\nb:\r\n- x\r\n") == {"a": 1, "b": ["x"]}


def test_keys_are_the_text_that_was_written() -> None:
    assert read("1: a\ntrue: b\n0644: c\non: d\n'': e") == {"1": "a", "true": "b", "0644": "c", "on": "d", "": "e"}


@pytest.mark.parametrize("text", ["? [a]\n: 1", "? {a: 1}\n: 1", "x: {[a]: 1}", "&k a: 1\n*k : 2"])
def test_a_key_that_is_no_text_is_refused(text: str) -> None:
    assert refused(text).reason == "a key must be text"


# --- documents


@pytest.mark.parametrize("text", ["", " ", "\n\n", "# nothing\n", "---\n", "---\n---\n", "null", "~", "\ufeff"])
def test_a_text_without_content_holds_no_document(text: str) -> None:
    assert read_documents(text.encode()) == []


def test_documents_are_read_in_order_and_empty_ones_left_out() -> None:
    text = "---\n# nothing\n---\na: 1\n---\n---\nb: 2\n...\n---\n- c\n--- text\n"
    assert [document.value for document in read_documents(text.encode())] == [{"a": 1}, {"b": 2}, ["c"], "text"]


def test_json_documents_may_be_divided_like_yaml_ones() -> None:
    assert [d.value for d in read_documents(b'{"a": 1}\n---\n{"b": 2}\n')] == [{"a": 1}, {"b": 2}]


def test_an_anchor_ends_with_its_document() -> None:
    error = refused("a: &x 1\n---\nb: *x")
    assert (error.reason, error.line, error.column) == ("alias *x refers to nothing before it", 3, 4)


def test_a_fault_in_a_late_document_counts_lines_from_the_top() -> None:
    assert refused("a: 1\n---\nb: 1\n---\nc: [\n").line >= 5


# --- anchors and merge keys


def test_an_alias_stands_for_what_was_anchored() -> None:
    assert read("a: &x {k: [1]}\nb: *x\nc: [*x, *x]") == {
        "a": {"k": [1]},
        "b": {"k": [1]},
        "c": [{"k": [1]}, {"k": [1]}],
    }


def test_the_nearest_anchor_of_a_name_counts() -> None:
    assert read("a: &x 1\nb: *x\nc: &x 2\nd: *x") == {"a": 1, "b": 1, "c": 2, "d": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<<: {a: 1}\nb: 2", {"a": 1, "b": 2}),
        ("<<: {a: 1}\na: 2", {"a": 2}),
        ("a: 2\n<<: {a: 1, b: 3}", {"a": 2, "b": 3}),
        ("<<: [{a: 1}, {a: 2, b: 2}]", {"a": 1, "b": 2}),
        ("<<: {a: 1}\n<<: {b: 2}", {"a": 1, "b": 2}),
        ("<<: {}", {}),
        ("'<<': 5", {"<<": 5}),
    ],
)
def test_a_merge_key_brings_in_what_is_not_written(text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize("text", ["<<: 5", "<<: text", "<<: [1]", "<<: [[{a: 1}]]", "<<:"])
def test_a_merge_key_needs_mappings(text: str) -> None:
    assert "<< needs a mapping" in refused(text).reason


def test_what_a_merge_brought_in_may_be_overridden_once() -> None:
    error = refused("<<: {a: 1}\na: 2\na: 3")
    assert (error.line, error.column) == (3, 1)


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "&a\nb: *a", "a: &a\n  <<: *a"])
def test_an_alias_inside_of_what_it_refers_to_is_refused(text: str) -> None:
    assert "stands inside of what it refers to" in refused(text).reason


# --- faults and their places


def test_a_duplicate_key_is_refused_with_both_lines() -> None:
    error = refused("spec:\n  a: 1\n  b: 2\n  a: 3\n")
    assert str(error) == "4:3: key 'a' occurs twice, first on line 2"


def test_a_duplicate_key_in_json_is_refused_by_name() -> None:
    assert "key 'a' occurs twice" in refused('{"x": {"a": 1, "b": 2, "a": 3}}').reason


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a:\n\tb: 1", 2, 1),
        ("\ta: 1", 1, 1),
        ("a: b: c", 1, 5),
        ("a: 1\nb: @x", 2, 4),
        ("a: [1, 2", 2, 1),
        ('a: "x', 1, 6),
        ("a: 1\nb: *unknown", 2, 4),
        ("- a\nb: 1", 2, 1),
        ("%YAML 9.9\n---\na: 1", 1, 1),
        ("a: \x01", 1, 4),
        ("a: 1\nbc: x\x7fy", 2, 6),
        ("a: \x00", 1, 4),
    ],
)
def test_broken_yaml_is_refused_with_its_place(text: str, line: int, column: int) -> None:
    error = refused(text)
    assert (error.line, error.column) == (line, column)
    assert str(error) == f"{line}:{column}: {error.reason}"


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [(b"\xff", 1, 1), (b"a: 1\nb: \xff", 2, 4), (b"a: 1\n\n\xc3(", 3, 1), ("a: 1".encode("utf-16"), 1, 1)],
)
def test_text_that_is_not_utf_8_is_refused_with_its_place(data: bytes, line: int, column: int) -> None:
    error = refused(data)
    assert (error.reason, error.line, error.column) == ("is not UTF-8 text", line, column)


def test_a_byte_order_mark_is_no_content() -> None:
    assert read(b"\xef\xbb\xbfa: 1") == {"a": 1}
    assert read(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


# --- JSON


@pytest.mark.parametrize("value", [{}, [], {"a": [1, 2.5, "x", None, True, {"b": {}}]}, [[["\u00e9\U0001f600"]]]])
def test_json_is_read_as_it_is(value: object) -> None:
    assert read(json.dumps(value)) == value
    assert read(json.dumps(value, ensure_ascii=False, indent=1)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1}", {"a": 1}),
        ('{"a": 1,}', {"a": 1}),
        ("[1, 2,]", [1, 2]),
        ("{'a': 'b'}", {"a": "b"}),
        ('{"a": 1 # comment\n}', {"a": 1}),
        ("{a: 1}\n---\n{b: 2}", None),
    ],
)
def test_what_starts_like_json_may_still_be_yaml(text: str, value: object) -> None:
    documents = [document.value for document in read_documents(text.encode())]
    assert documents == ([value] if value else [{"a": 1}, {"b": 2}])


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [('{"a":', 1, 6), ('{"a": 1}}', 1, 9), ('{\n "a": 1\n "b": 2\n}', 3, 2), ('{"a": 1}\n{"b": 2}', 2, 1), ("{", 1, 2)],
)
def test_what_is_neither_json_nor_yaml_is_refused_as_json(text: str, line: int, column: int) -> None:
    error = refused(text)
    assert error.reason.startswith("is not JSON")
    assert (error.line, error.column) == (line, column)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": -Infinity}', "-Infinity is not a JSON number"),
        ('{"a": 1e400}', "holds a number that is too large"),
        ('{"a": ' + "9" * 5000 + "}", "holds a number that is too long"),
        ('{"a": "\\ud800"}', "holds half of a surrogate pair"),
        ('{"\\udfff": 1}', "holds half of a surrogate pair"),
    ],
    ids=["NaN", "Infinity", "1e400", "digits", "value", "key"],
)
def test_json_that_nobody_could_write_again_is_refused(text: str, reason: str) -> None:
    assert reason in refused(text).reason


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert read('{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


# --- hostile input


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        '{"a":' * 200_000,
        "[" * 100_000 + "]" * 100_000,
        "a: " + "[" * 1_000_000,
        "a: " + "{b: " * 200_000,
        "- " * 1_000_000,
        "".join("  " * n + "a:\n" for n in range(300)),
        "? " * 1_000_000,
    ],
    ids=["lists", "members", "closed", "flow lists", "flow mappings", "block lists", "block mappings", "keys"],
)
def test_deep_nesting_is_refused_at_once(text: str) -> None:
    assert "nested" in refused(text).reason or "key must be text" in refused(text).reason


def test_nesting_as_deep_as_any_real_object_is_read() -> None:
    value: Any = 1
    for _ in range(90):
        value = {"a": value}
    assert read("x: " + json.dumps(value)) == {"x": value}
    assert read(json.dumps(value)) == value


def billion_laughs(levels: int, width: int = 9) -> str:
    """A few lines that stand for width**levels values."""
    lines = ["a0: &a0 [" + ", ".join(["lol"] * width) + "]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * width) + "]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "text",
    [
        billion_laughs(10),
        "\n".join(["a0: &a0 {k: [1, 2, 3]}"] + [f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}" for n in range(1, 60)]),
        "x: &x [" + "1, " * 10_000 + "]\ny: [" + "*x, " * 10_000 + "]",
        "".join("---\n" + billion_laughs(6) + "\n" for _ in range(50)),
    ],
    ids=["lists", "mappings", "flat", "many documents"],
)
def test_aliases_that_grow_without_bound_are_refused_in_little_time_and_memory(text: str) -> None:
    tracemalloc.start()
    try:
        error = refused(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "values once its aliases are expanded" in error.reason
    assert error.line
    assert peak < 64 << 20


@pytest.mark.timeout(5)
def test_aliases_cannot_make_what_is_too_deep_to_convert_harmful() -> None:
    """Each anchor is shallow, all of them together are not: reading copes, whatever comes of it."""
    nested = "[" * 90 + "{}" + "]" * 90
    lines = [f"a0: &a0 {nested}"] + [f"a{n}: &a{n} {nested.format(f'*a{n - 1}')}" for n in range(1, 100)]
    assert len(read("\n".join(lines).replace("{}", "1", 1))) == 100


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "text", ["9" * 100_000, "0x" + "f" * 100_000, "1e999999999", "-" + "9" * 5000, "0" * 100_000], ids=lambda t: t[:6]
)
def test_a_number_that_is_too_long_for_one_stays_text(text: str) -> None:
    assert read(f"a: {text}") == {"a": text}


@pytest.mark.timeout(20)
def test_a_text_that_is_too_large_is_refused_unread() -> None:
    assert refused(b"[" * (MAX_BYTES + 1)).reason == "is larger than 10 MiB"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["a,", "{},", "1.5,", "!!str a,"])
def test_more_keys_and_values_than_anybody_writes_are_refused(part: str) -> None:
    assert refused(f"a: [{part * 251_000}]").reason.startswith("holds more than 250,000 keys and values")


@pytest.mark.timeout(20)
def test_more_documents_than_anybody_writes_are_refused() -> None:
    assert refused("---\na\n" * 251_000).reason.startswith("holds more than 250,000 keys and values")


@pytest.mark.timeout(5)
def test_a_number_of_json_that_is_too_long_is_refused() -> None:
    assert refused(f'{{"a": {"9" * 401}}}').reason == "holds a number that is too long"
    assert read(f'{{"a": {"9" * 400}}}') == {"a": int("9" * 400)}


# --- places of fields

MANIFEST = """\
# a comment
apiVersion: v1
spec:
  containers:
  - name: first
    image: a
  - name: second
    env:
    - {name: A, value: b}
  nodeSelector:
    example.com/zone: west
"""


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("", (2, 1)),
        ("apiVersion", (2, 13)),
        ("spec.containers[0].image", (6, 12)),
        ("spec.containers[1]", (7, 5)),
        ("spec.containers[1].env[0].value", (9, 24)),
        ("spec.nodeSelector[example.com/zone]", (11, 23)),
        ("spec.containers[0].ports[3].name", (5, 5)),
        ("spec.containers[7]", (5, 3)),
        ("spec.containers[].image", (5, 3)),
        ("metadata.name", (2, 1)),
        ("apiVersion.inner", (2, 13)),
    ],
)
def test_a_field_is_found_or_the_nearest_thing_around_it(field: str, place: tuple[int, int]) -> None:
    (document,) = read_documents(MANIFEST.encode())
    assert document.place(field) == place


def test_what_came_by_alias_or_merge_is_found_where_it_was_written() -> None:
    (document,) = read_documents(b"base: &base\n  image: x\nspec:\n  <<: *base\n  all: *base\n")
    assert document.place("spec.image") == (2, 10)
    assert document.place("spec.all.image") == (2, 10)


def test_each_document_knows_its_own_lines() -> None:
    first, second = read_documents(b"a: 1\n---\na: 2\n")
    assert (first.place("a"), second.place("a")) == ((1, 4), (3, 4))


@pytest.mark.parametrize("indent", [None, 2, "\t"])
def test_fields_of_json_have_places_too(indent: str | int | None) -> None:
    text = json.dumps({"spec": {"containers": [{"name": "c", "comand": ["x"]}]}}, indent=indent)
    before = text[: text.index('"comand"')]
    (document,) = read_documents(text.encode())
    place = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert document.name_place("spec.containers[0]", "comand") == place
    assert document.value["spec"]["containers"][0]["comand"] == ["x"]


def test_json_that_is_no_yaml_has_no_places() -> None:
    (document,) = read_documents(b'{"a": "\\/", "b": "' + b"x" * 1100 + b'"}')
    assert document.value["a"] == "/"
    (document,) = read_documents(b'{"' + b"k" * 1100 + b'": 1}')  # YAML's keys are shorter
    assert document.place("a") is None
