"""Filters: what they mean, and what is none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.requests.filters import (
    MAX_COMPARISONS,
    MAX_FILTER_DEPTH,
    MAX_FILTER_LENGTH,
    AllOf,
    AnyOf,
    Equals,
    FilterError,
    OneOf,
    parse_filter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.requests.filters import Predicate

NODE: dict[str, Any] = {
    "Name": "ondemand-1",
    "Status": "Ready",
    "CoreCount": 4,
    "Memory": 8.0,
    "KeepAlive": True,
    "Off": False,
    "Hostname": None,
    "One": 1,
    "Zero": 0,
    "Text": "4",
    "Empty": "",
    "Configuration": {"a": 1},
    "Quoted": 'a "b" \\ ü\n',
}


def holds(text: str, attributes: Mapping[str, Any] = NODE) -> bool:
    return parse_filter(text).holds(attributes)


@pytest.mark.parametrize(
    "text",
    [
        'Name === "ondemand-1"',
        'Name==="ondemand-1"',
        ' \t\r\nName\n===\t"ondemand-1" ',
        "CoreCount === 4",
        "CoreCount === 4.0",
        "CoreCount === 40e-1",
        "Memory === 8",
        "KeepAlive === true",
        "Off === false",
        "Hostname === null",
        'Empty === ""',
        r'Quoted === "a \"b\" \\ \u00fc\n"',
        'Name in {"x", "ondemand-1"}',
        'Name in{"ondemand-1"}',
        "CoreCount in {null, true, 4}",
    ],
)
def test_a_filter_holds_for_what_it_describes(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("Name", '"Ondemand-1"'),
        ("name", '"ondemand-1"'),
        ("CoreCount", '"4"'),
        ("Text", "4"),
        ("One", "true"),
        ("KeepAlive", "1"),
        ("KeepAlive", '"true"'),
        ("Zero", "false"),
        ("Off", "0"),
        ("Zero", "null"),
        ("Hostname", '""'),
        ("Hostname", "false"),
        ("Empty", "null"),
        ("Configuration", '"a"'),
        ("Configuration", "1"),
        ("Unknown", "null"),
        ("Unknown", '""'),
        ("Unknown", "false"),
    ],
)
def test_what_differs_in_type_or_case_or_is_missing_is_not_equal(attribute: str, value: str) -> None:
    assert not holds(f"{attribute} === {value}")
    assert holds(f"{attribute} !== {value}")
    assert not holds(f"{attribute} in {{{value}}}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("One === 1 || One === 1 && One === 2", True),
        ("One === 2 && One === 1 || One === 1", True),
        ("(One === 1 || One === 1) && One === 2", False),
        ("One === 2 && (One === 1 || One === 1)", False),
        ("One === 1 && One === 1 && One !== 1", False),
        ("One === 2 || One === 3 || One === 1", True),
        ("((One === 1))", True),
    ],
)
def test_and_binds_closer_than_or_and_parentheses_closest(text: str, *, value: bool) -> None:
    assert holds(text) is value


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("", 1, "an attribute's name"),
        ("   ", 4, "an attribute's name"),
        ('"x" === Name', 1, "an attribute's name"),
        ("in === 1", 1, "an attribute's name"),
        ("true", 1, "an attribute's name"),
        ("Name", 5, "===, !== or in"),
        ('Name == "x"', 6, "===, !== or in"),
        ('Name = "x"', 6, "===, !== or in"),
        ('Name != "x"', 6, "===, !== or in"),
        ('Name ==== "x"', 9, "a string"),
        ('Name IN {"x"}', 6, "===, !== or in"),
        ("Name < 1", 6, "===, !== or in"),
        ("Name.x === 1", 5, "===, !== or in"),
        ("Name === x", 10, "a string"),
        ("Name === 'x'", 10, "a string"),
        ("Name === undefined", 10, "a string"),
        ('Name === "x', 10, "a string"),
        (r'Name === "\x"', 10, "as in JSON"),
        ("Name === 1e400", 10, "as in JSON"),
        ("Name === " + "9" * 5_000, 10, "as in JSON"),
        ("Name === 01", 11, "the end"),
        ("Name === +1", 10, "a string"),
        ("Name ===", 9, "a string"),
        ('Name === "x" "y"', 14, "the end"),
        ('Name === "x" & Name === "y"', 14, "the end"),
        ('Name === "x" and Name === "y"', 14, "the end"),
        ('Name === "x" &&', 16, "an attribute's name"),
        ('|| Name === "x"', 1, "an attribute's name"),
        ('!(Name === "x")', 1, "an attribute's name"),
        ('(Name === "x"', 14, "&&, || or )"),
        ('Name === "x")', 13, "the end"),
        ("()", 2, "an attribute's name"),
        ('Name in "x"', 9, "{"),
        ("Name in {}", 10, "a string"),
        ('Name in {"x",}', 14, "a string"),
        ('Name in {"x" "y"}', 14, ", or }"),
        ('Name in {"x"', 13, ", or }"),
        ('Náme === "x"', 2, "===, !== or in"),
        ('Name === "x"; drop', 13, "the end"),
        ("Name\u00a0=== 1", 5, "===, !== or in"),
    ],
)
def test_anything_else_is_refused_and_says_where_and_what_was_expected(
    text: str, at: int, expected: str
) -> None:
    with pytest.raises(FilterError) as error:
        parse_filter(text)
    message = str(error.value)
    assert message.startswith(f"at character {at} there must be ")
    assert expected in message
    assert len(message) < 200


def test_depth_and_length_are_bounded() -> None:
    def nested(depth: int) -> str:
        return "(" * depth + "One === 1" + ")" * depth

    assert holds(nested(MAX_FILTER_DEPTH))
    with pytest.raises(FilterError, match=f"character {MAX_FILTER_DEPTH + 1} "):
        parse_filter(nested(MAX_FILTER_DEPTH + 1))
    with pytest.raises(FilterError, match="at most 50 parentheses"):
        parse_filter("(" * MAX_FILTER_LENGTH)
    assert not holds("One in {2" + ",2" * (MAX_FILTER_LENGTH // 2 - 5) + "}")
    assert not holds(" || ".join(["One === 2"] * MAX_COMPARISONS))
    with pytest.raises(FilterError, match=f"at most {MAX_COMPARISONS} comparisons, and values in lists"):
        parse_filter(" || ".join(["One === 2"] * (MAX_COMPARISONS + 1)))
    with pytest.raises(FilterError, match=f"at most {MAX_FILTER_LENGTH} characters"):
        parse_filter(" " * MAX_FILTER_LENGTH + "One === 1")


def test_a_list_of_any_length_is_looked_into_once() -> None:
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = ", ".join(f'"ondemand-{number}"' for number in range(3_000))
    condition = parse_filter(f"Name in {{{names}}}")
    assert condition.holds({"Name": Name("ondemand-2999")})
    assert not condition.holds({"Name": Name("ondemand-3000")})
    assert compared < 10


# Properties.

attributes = st.sampled_from(["Name", "CoreCount", "_x", "KeepAlive", "z9"])
values = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
)
comparisons = st.one_of(
    st.builds(Equals, attributes, values, st.booleans()),
    st.builds(OneOf, attributes, st.lists(values, min_size=1, max_size=4).map(tuple)),
)
conditions: st.SearchStrategy[Predicate] = st.recursive(
    comparisons,
    lambda inner: st.builds(
        lambda kind, parts: kind(tuple(parts)),
        st.sampled_from([AllOf, AnyOf]),
        st.lists(inner, min_size=2, max_size=4),
    ),
    max_leaves=20,
)
nodes = st.dictionaries(attributes, values)


@given(conditions)
def test_what_is_written_down_is_read_as_the_same(condition: Predicate) -> None:
    # By repr, since 1 == 1.0 == True. What was written without need of parentheses is read without them.
    assert repr(parse_filter(str(condition))) == repr(condition)


@given(conditions, nodes)
def test_a_filter_means_what_the_same_words_mean_in_python(
    condition: Predicate, node: dict[str, Any]
) -> None:
    def meaning(one: Predicate) -> bool:
        match one:
            case Equals(name, value, negated):
                return (name in node and json_equal(node[name], value)) != negated
            case OneOf(name, found):
                return name in node and any(json_equal(node[name], value) for value in found)
            case AllOf(parts):
                return min(meaning(part) for part in parts)
            case AnyOf(parts):
                return max(meaning(part) for part in parts)
        raise AssertionError(one)

    def json_equal(left: Any, right: Any) -> bool:
        kinds = [
            type(one) if not isinstance(one, int) or isinstance(one, bool) else float for one in (left, right)
        ]
        return kinds[0] is kinds[1] and left == right

    assert parse_filter(str(condition)).holds(node) is bool(meaning(condition))


@given(st.lists(comparisons, min_size=1, max_size=6), st.lists(st.booleans(), min_size=5, max_size=5), nodes)
def test_without_parentheses_a_filter_is_alternatives_of_requirements(
    parts: list[Predicate], ors: list[bool], node: dict[str, Any]
) -> None:
    text, groups = str(parts[0]), [[parts[0]]]
    for part, is_or in zip(parts[1:], ors, strict=False):
        text += f" {'||' if is_or else '&&'} {part}"
        if is_or:
            groups.append([part])
        else:
            groups[-1].append(part)
    assert holds(text, node) is any(all(one.holds(node) for one in group) for group in groups)


def _judge(text: str) -> None:
    try:
        condition = parse_filter(text)
    except FilterError as error:
        assert 1 <= int(str(error).split()[2]) <= len(text) + 1  # noqa: PT017 - most texts are no filters
    else:
        assert repr(parse_filter(str(condition))) == repr(condition)


@given(st.text())
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    _judge(text)


SNIPPETS = [
    "Name",
    "in",
    "true",
    "null",
    "===",
    "!==",
    "&&",
    "||",
    "(",
    ")",
    "{",
    "}",
    ",",
    '"a"',
    "1",
    "-",
    '"',
    "=",
    " ",
]


@given(st.lists(st.sampled_from(SNIPPETS), max_size=12).map("".join))
def test_any_text_of_a_filters_parts_is_a_filter_or_refused(text: str) -> None:
    _judge(text)


@given(conditions, st.data())
def test_a_filter_with_one_character_changed_is_a_filter_or_refused(
    condition: Predicate, data: st.DataObject
) -> None:
    text = str(condition)
    at = data.draw(st.integers(0, len(text)))
    _judge(text[:at] + data.draw(st.sampled_from(["", *SNIPPETS])) + text[at + 1 :])


def test_a_string_is_read_with_all_of_jsons_escapes() -> None:
    text = 'é"\\/\b\f\n\r\t 世 🐎'
    for ascii_only in (True, False):
        assert parse_filter(f"X === {json.dumps(text, ensure_ascii=ascii_only)}") == Equals("X", text)
