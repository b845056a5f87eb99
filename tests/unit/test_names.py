"""Node names: a compact set, and the lowest that are free."""

from __future__ import annotations

import json
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.identity import OperationId, node_id
from paddock.model.names import NameSet

ENDS = st.integers(0, 30).map(str) | st.integers(0, 10**12).map(str) | st.text("n0.-", max_size=3)
NAMES = st.builds("{}{}".format, st.sampled_from(["n", "n-", "n-1", "0", "00", "9", "x.y_"]), ENDS)
FORMATS = st.sampled_from(["n-%d", "n%d", "%d", "0%d", "n-1%d", "%d-n", "n", "n-1", "n-01"])


@given(st.lists(NAMES))
def test_a_set_of_names_is_written_and_read_back_the_same(names: list[str]) -> None:
    document = json.loads(json.dumps(NameSet(names).to_document()))
    found = NameSet.from_document(document)
    assert sorted(found) == sorted(set(names))
    assert found.to_document() == document
    assert all(name in found for name in names)


@given(st.lists(NAMES), st.lists(NAMES))
def test_a_name_that_is_freed_is_gone_and_no_other(names: list[str], released_nodes: list[str]) -> None:
    one = NameSet(names)
    for name in released_nodes:
        one.discard(name)
    assert sorted(one) == sorted(set(names) - set(released_nodes))
    assert one.to_document() == NameSet(set(names) - set(released_nodes)).to_document()


@given(st.lists(NAMES), FORMATS, st.integers(0, 100_000_000), st.integers(0, 20))
def test_free_names_are_the_lowest_of_the_format_that_are_not_taken(
    names: list[str], name_format: str, first: int, count: int
) -> None:
    taken = NameSet(names)
    found = list(islice(taken.free(name_format, first), count))
    assert not set(found) & set(names)
    if "%d" not in name_format:
        assert found == [name_format] * (count > 0 and name_format not in names)
        return
    candidates = (name_format.replace("%d", str(first + n)) for n in range(count + len(names)))
    assert found == [name for name in candidates if name not in names][:count]


@given(st.lists(NAMES), FORMATS, st.integers(0, 20))
def test_free_names_that_are_taken_are_not_free_again(names: list[str], name_format: str, count: int) -> None:
    taken = NameSet(names)
    first = list(islice(taken.free(name_format, 1), count))
    for name in first:
        taken.add(name)
    assert not set(first) & set(islice(taken.free(name_format, 1), count))


def test_thousands_of_names_are_short_when_written() -> None:
    names = NameSet(f"ondemand-{number}" for number in range(1, 10_001))
    names.discard("ondemand-42")
    assert names.to_document() == {"ondemand-": "1-41,43-10000"}


def test_thousands_of_node_ids_of_one_operation_are_short_when_written() -> None:
    operation_id = OperationId("12345678-1234-4234-8234-123456700000")
    ids = [node_id(operation_id, index) for index in range(1, 10_001)]
    document = NameSet(ids).to_document()
    assert len(json.dumps(document)) < 500
    assert sorted(NameSet.from_document(document)) == ids


@pytest.mark.parametrize(
    ("one", "other"), [("n-1", "n-01"), ("n1", "n-1"), ("1", "01"), ("0", "00"), ("n", "n0"), ("n", "N")]
)
def test_names_that_look_alike_are_different(one: str, other: str) -> None:
    assert other not in NameSet([one])
    assert sorted(NameSet([one, other])) == sorted([one, other])


def test_names_that_are_taken_are_passed_once() -> None:
    looked = 0

    class Counted(NameSet):
        def __contains__(self, name: str) -> bool:
            nonlocal looked
            looked += 1
            return super().__contains__(name)

    names = Counted(f"node-{number}" for number in range(1, 1001))
    names.discard("node-500")
    for _ in range(1000):
        names.add(next(names.free("node-%d", 1)))
    assert [next(names.free("node-%d", 1)), next(names.free("node-%d", 3))] == ["node-2000"] * 2
    assert looked < 10_000
    names.discard("node-7")
    assert next(names.free("node-%d", 1)) == "node-7"
