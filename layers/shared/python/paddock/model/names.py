"""Node names: which are taken, and the lowest that are free.

Names mostly end in a number, so a set of them is kept as ``{"ondemand-": "1-40,42"}``: short, whatever the
count. A name is always split before the longest number without leading zeros at its end; hence a name has one
place only, whichever format it came from.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NUMBERED = re.compile(r"^(?P<prefix>.*?)(?P<number>0|[1-9][0-9]{0,8})$")
PLACEHOLDER = "%d"


def _split(name: str) -> tuple[str, int | None]:
    match = _NUMBERED.match(name)
    return (match["prefix"], int(match["number"])) if match else (name, None)


class NameSet:
    """A mutable set of names, compact when written down."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._numbers: dict[str, set[int]] = {}
        self._literals: set[str] = set()
        # By format and first number: up to where all names are taken.
        self._taken_to: dict[tuple[str, int], int] = {}
        for name in names:
            self.add(name)

    def __contains__(self, name: str) -> bool:
        prefix, number = _split(name)
        return name in self._literals if number is None else number in self._numbers.get(prefix, ())

    def __iter__(self) -> Iterator[str]:
        """Names in a fixed order: numbered ones by prefix and number, then the others."""
        for prefix in sorted(self._numbers):
            yield from (f"{prefix}{number}" for number in sorted(self._numbers[prefix]))
        yield from sorted(self._literals)

    def add(self, name: str) -> None:
        """Take a name; taking it twice is the same as once."""
        prefix, number = _split(name)
        if number is None:
            self._literals.add(name)
        else:
            self._numbers.setdefault(prefix, set()).add(number)

    def discard(self, name: str) -> None:
        """Free a name; freeing a free one changes nothing."""
        self._taken_to.clear()
        prefix, number = _split(name)
        if number is None:
            self._literals.discard(name)
        elif number in (numbers := self._numbers.get(prefix, set())):
            numbers.remove(number)
            if not numbers:
                del self._numbers[prefix]

    def free(self, name_format: str, first: int) -> Iterator[str]:
        """Names of this format that are not taken, lowest number first; without ``%d`` at most one."""
        if PLACEHOLDER not in name_format:
            if name_format not in self:
                yield name_format
            return
        number = self._taken_to.get((name_format, first), first)
        while (name := name_format.replace(PLACEHOLDER, str(number))) in self:
            number += 1
        self._taken_to[name_format, first] = number
        while True:
            if name not in self:
                yield name
            number += 1
            name = name_format.replace(PLACEHOLDER, str(number))

    def to_document(self) -> dict[str, str]:
        """The set as prefix to ranges; a name that ends in no number stands with no ranges."""
        ranges = {prefix: _to_ranges(sorted(numbers)) for prefix, numbers in self._numbers.items()}
        return {**ranges, **{f"{literal}\0": "" for literal in self._literals}}

    @classmethod
    def from_document(cls, document: Mapping[str, str]) -> NameSet:
        """The set that ``to_document`` wrote."""
        names = cls()
        for prefix, ranges in document.items():
            if ranges:
                names._numbers[prefix] = set(_from_ranges(ranges))
            else:
                names._literals.add(prefix.removesuffix("\0"))
        return names


def _to_ranges(numbers: list[int]) -> str:
    """``[1, 2, 3, 7]`` as ``1-3,7``; numbers ascend."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _from_ranges(ranges: str) -> Iterator[int]:
    for run in ranges.split(","):
        low, _, high = run.partition("-")
        yield from range(int(low), int(high or low) + 1)
