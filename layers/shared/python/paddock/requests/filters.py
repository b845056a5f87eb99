"""Filters: conditions on a node's attributes, as clients write them in ``filter``.

::

    condition  = all, { "||", all } ;
    all        = one, { "&&", one } ;
    one        = "(", condition, ")" | attribute, ( "===" | "!==" ), value | attribute, "in", values ;
    values     = "{", value, { ",", value }, "}" ;
    value      = string | number | "true" | "false" | "null" ;       as in JSON
    attribute  = letter or "_", { letter | digit | "_" } ;

Values are equal when they are of the same JSON type and the same value: ``4`` is ``4.0``, but neither ``"4"``
nor ``true``. An attribute that a node does not have equals nothing, not even ``null``.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from paddock.model.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Room for some thousands of names in one list.
MAX_FILTER_LENGTH = 65_536
MAX_FILTER_DEPTH = 50
# Each is tried on each of ten thousand nodes, while a client waits.
MAX_COMPARISONS = 1_000
_MAX_NUMBER_LENGTH = 40
_TOLD = 20

_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
_RESERVED = {*_CONSTANTS, "in"}
_TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")
    |(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<mark>===|!==|&&|\|\||[(){},])
    |(?P<strange>.+)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLANKS = re.compile(r"[ \t\r\n]*")

Value = str | int | float | bool | None


class FilterError(ValueError):
    """The text is no filter; the message says where, and what was expected there."""


class Predicate(Protocol):
    """A parsed filter. ``str`` gives it as text again."""

    def holds(self, attributes: Mapping[str, Any]) -> bool:
        """Whether a node with these attributes is meant."""


@dataclass(frozen=True, slots=True)
class Equals:
    """The attribute is this value; ``negated``, it is another one, or missing."""

    attribute: str
    value: Value
    negated: bool = False

    def holds(self, attributes: Mapping[str, Any]) -> bool:
        """See ``Predicate``."""
        return (_found(attributes, self.attribute) == _comparable(self.value)) is not self.negated

    def __str__(self) -> str:
        return f"{self.attribute} {'!==' if self.negated else '==='} {json.dumps(self.value)}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The attribute is one of these values."""

    attribute: str
    values: tuple[Value, ...]
    _known: frozenset[tuple[bool, Value]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", frozenset(map(_comparable, self.values)))

    def holds(self, attributes: Mapping[str, Any]) -> bool:
        """See ``Predicate``."""
        return _found(attributes, self.attribute) in self._known

    def __str__(self) -> str:
        return f"{self.attribute} in {{{', '.join(json.dumps(value) for value in self.values)}}}"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Each of at least two conditions holds."""

    conditions: tuple[Predicate, ...]

    def holds(self, attributes: Mapping[str, Any]) -> bool:
        """See ``Predicate``."""
        return all(condition.holds(attributes) for condition in self.conditions)

    def __str__(self) -> str:
        return " && ".join(
            f"({condition})" if isinstance(condition, AllOf | AnyOf) else str(condition)
            for condition in self.conditions
        )


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of at least two conditions holds."""

    conditions: tuple[Predicate, ...]

    def holds(self, attributes: Mapping[str, Any]) -> bool:
        """See ``Predicate``."""
        return any(condition.holds(attributes) for condition in self.conditions)

    def __str__(self) -> str:
        return " || ".join(
            f"({condition})" if isinstance(condition, AnyOf) else str(condition)
            for condition in self.conditions
        )


def parse_filter(text: str) -> Predicate:
    """The condition that a filter's text states. Raises ``FilterError`` for any other text."""
    if len(text) > MAX_FILTER_LENGTH:
        msg = f"a filter must have at most {MAX_FILTER_LENGTH} characters"
        raise FilterError(msg)
    return _Parser(text).parse()


def _found(attributes: Mapping[str, Any], name: str) -> tuple[bool, Value] | None:
    """The attribute, comparable; ``None`` where it is missing, or nothing that a filter can name."""
    value = attributes.get(name, ...)
    return _comparable(value) if isinstance(value, Value) else None


def _comparable(value: Value) -> tuple[bool, Value]:
    """The value so that it is equal to what JSON calls equal: true is not 1 there."""
    return isinstance(value, bool), value


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Parser:
    """Recursive descent, one token ahead. What cannot be a token is one that is expected nowhere."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self._comparisons = 0
        self._end = 0
        self._next = self._read()

    def parse(self) -> Predicate:
        condition = self._any_of()
        if self._next.kind != "end":
            raise self._unexpected("&&, || or the end")
        return condition

    def _any_of(self) -> Predicate:
        conditions = self._joined("||", self._all_of)
        return conditions[0] if len(conditions) == 1 else AnyOf(conditions)

    def _all_of(self) -> Predicate:
        conditions = self._joined("&&", self._comparison)
        return conditions[0] if len(conditions) == 1 else AllOf(conditions)

    def _joined(self, mark: str, read: Callable[[], Predicate]) -> tuple[Predicate, ...]:
        conditions = [read()]
        while self._takes(mark):
            conditions.append(read())
        return tuple(conditions)

    def _comparison(self) -> Predicate:
        if self._is_mark("("):
            return self._in_parentheses()
        if self._next.kind != "word" or self._next.text in _RESERVED:
            raise self._unexpected("an attribute's name or (")
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            raise self._unexpected(f"at most {MAX_COMPARISONS} comparisons, and values in lists")
        attribute = self._take().text
        if self._next.kind == "word" and self._next.text == "in":
            self._take()
            return OneOf(attribute, self._values())
        if self._is_mark("===") or self._is_mark("!=="):
            negated = self._take().text == "!=="
            return Equals(attribute, self._value(), negated=negated)
        raise self._unexpected("===, !== or in")

    def _in_parentheses(self) -> Predicate:
        if self._depth == MAX_FILTER_DEPTH:
            raise self._unexpected(f"at most {MAX_FILTER_DEPTH} parentheses inside each other")
        self._take()
        self._depth += 1
        condition = self._any_of()
        self._depth -= 1
        self._require(")", "&&, || or )")
        return condition

    def _values(self) -> tuple[Value, ...]:
        self._require("{", "{")
        values = [self._value()]
        while self._takes(","):
            values.append(self._value())
        self._require("}", ", or }")
        return tuple(values)

    def _value(self) -> Value:
        token = self._next
        if token.kind in ("string", "number"):
            value = _from_json(token)
            if value is None:
                raise self._unexpected("a string or number as in JSON")
            self._take()
            return value
        if token.text in _CONSTANTS:
            self._take()
            return _CONSTANTS[token.text]
        raise self._unexpected("a string in double quotes, a number, true, false or null")

    def _is_mark(self, mark: str) -> bool:
        return self._next.kind == "mark" and self._next.text == mark

    def _takes(self, mark: str) -> bool:
        """Take this mark, if it is the next token."""
        if not self._is_mark(mark):
            return False
        self._take()
        return True

    def _require(self, mark: str, expected: str) -> None:
        if not self._takes(mark):
            raise self._unexpected(expected)

    def _take(self) -> _Token:
        taken, self._next = self._next, self._read()
        return taken

    def _read(self) -> _Token:
        blanks = _BLANKS.match(self._text, self._end)
        start = blanks.end() if blanks else self._end
        match = _TOKEN.match(self._text, start)
        if match is None:
            return _Token("end", "", start)
        self._end = match.end()
        return _Token(match.lastgroup or "", match.group(), start)

    def _unexpected(self, expected: str) -> FilterError:
        found = quoted(self._next.text[:_TOLD]) if self._next.text else "the end"
        return FilterError(f"at character {self._next.at + 1} there must be {expected}, not {found}")


def _from_json(token: _Token) -> str | int | float | None:
    """The string or number, nothing where it is none of JSON's, or a number too long or too large."""
    if token.kind == "number" and len(token.text) > _MAX_NUMBER_LENGTH:
        return None
    try:
        value: str | int | float = json.loads(token.text)
    except ValueError:
        return None
    return None if isinstance(value, float) and math.isinf(value) else value
