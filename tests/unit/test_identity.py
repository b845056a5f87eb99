"""Ids and revisions."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.base import MAX_NODES
from paddock.model.identity import (
    derived_operation_id,
    is_id,
    new_operation_id,
    next_revision,
    node_id,
    node_index,
    operation_of,
    revised_at,
)
from tests.fakes.clock import START

INDEXES = st.integers(1, MAX_NODES)


@given(INDEXES)
def test_a_node_id_tells_its_operation_and_its_index(index: int) -> None:
    operation_id = new_operation_id(START)
    identity = node_id(operation_id, index)
    assert is_id(identity)
    assert str(UUID(identity)) == identity
    assert str(identity) != operation_id
    assert (operation_of(identity), node_index(identity)) == (operation_id, index)


@given(INDEXES, INDEXES)
def test_node_ids_sort_as_their_indexes(one: int, other: int) -> None:
    operation_id = new_operation_id(START)
    assert (node_id(operation_id, one) < node_id(operation_id, other)) is (one < other)


def test_operation_ids_are_all_different_and_so_are_the_ids_of_their_nodes() -> None:
    ids = [new_operation_id(START) for _ in range(1_000)]
    ids += [derived_operation_id(one, "terminate") for one in ids]
    assert len({node_id(one, 1) for one in ids}) == 2_000
    assert all(is_id(one) for one in ids)


@given(st.integers(0, 2**60), st.integers(1_000_000, 10**18))
def test_operation_ids_follow_each_other_in_time(now: int, later: int) -> None:
    first, second = new_operation_id(now), new_operation_id(now + later)
    assert first < node_id(first, MAX_NODES) < second
    assert UUID(first).version == 7


def test_the_operation_that_cleans_up_has_one_id_however_often_it_is_asked_for() -> None:
    operation_id = new_operation_id(START)
    assert (
        derived_operation_id(operation_id, "terminate")
        == derived_operation_id(operation_id, "terminate")
        != operation_id
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "00000000-0000-4000-8000-00000000000",
        "00000000-0000-4000-8000-0000000000000",
        "00000000-0000-4000-8000-00000000000G",
        "00000000-0000-4000-8000-00000000000A",
        "00000000-0000-4000-8000-000000000000\n",
        "{00000000-0000-4000-8000-000000000000}",
        "00000000000040008000000000000000",
    ],
)
def test_what_cannot_be_an_id_is_told_apart(text: str) -> None:
    assert not is_id(text)


@given(st.integers(0, 2**63), st.integers(0, 2**63))
def test_a_revision_is_above_the_previous_one_wherever_the_clock_stands(now: int, previous: int) -> None:
    assert next_revision(now, previous) > previous
    assert revised_at(next_revision(now, previous)) > now - 1_000
