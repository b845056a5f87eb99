"""What creates and virtual clusters cost in calls and capacity units, as docs/performance.md says."""

from __future__ import annotations

import pytest

from tests.bench.calls import (
    COUNTS,
    VIRTUAL_CLUSTER_COUNTS,
    measure,
    measure_virtual_cluster,
    table,
    virtual_cluster_table,
)
from tests.pages import DOCS

KILOBYTE, PAGE = 1_024, 1_048_576


def at_least(count: int, size: int) -> int:
    """How many portions of this size hold so many."""
    return -(-count // size)


def launches(nodes: int) -> tuple[int, int]:
    """The calls that launch, and the tasks: of the first thousand 500 a call, of the others 100.

    One of the latter is written down by a task, and made by another when it is its turn.
    """
    at_once, in_turn = at_least(min(nodes, 1_000), 500), at_least(max(0, nodes - 1_000), 100)
    return at_once + in_turn, at_once + 2 * in_turn


def node_reads(nodes: int) -> int:
    """How many nodes a create reads: each when it is found on record, gets its instance, and at the end.

    Those of the first batch are not read again for it. Each poll reads what is launched and not Ready, twice
    in all, and with them the batch that waits for its turn; but of the first thousand, that wait, once.
    """
    batches = nodes - min(nodes, 500)
    polls = 2 * nodes - (1_000 if nodes > 1_000 else 0)
    return 3 * nodes + batches + polls


def waits(nodes: int) -> int:
    """How many batches wait for their turn; after each, the operation notes which nodes have come up."""
    calls, tasks = launches(nodes)
    return tasks - calls


@pytest.mark.parametrize("nodes", COUNTS)
def test_a_create_makes_exactly_as_many_calls_as_the_formula_says(nodes: int) -> None:
    cost = measure(nodes)
    (batches, launching), hundreds, polls = launches(nodes), at_least(nodes, 100), cost.tasks["poll"]
    # Beside its first write, 99 nodes at a time, stands the condition that none has been removed yet.
    recordings = at_least(nodes, 99)
    assert cost.tasks == {"launch": launching, "poll": polls, "finish": 1}
    assert polls == launching - batches + (2 if launching == batches else 1)
    # The request: four reads, the one decision, the nodes. Nothing else keeps the client waiting.
    assert cost.request_calls == {"GetItem": 4, "TransactWriteItems": 1 + recordings}
    # All nodes are read at the beginning and at the end, and a batch before, by and after its launch.
    reads = 2 * batches + polls - 1
    # Records grow as nodes come up, so early reads may take a page less; the page's table has the number.
    pages = at_least(sum(cost.node_bytes), PAGE)
    assert reads + 2 * max(1, pages - 1) <= cost.calls["Query"] <= reads + 2 * pages
    assert cost.calls == {
        "GetItem": launching + 2 * batches + polls + 7,
        "Query": cost.calls["Query"],
        "TransactWriteItems": 2 * hundreds + recordings + 2 * batches + waits(nodes) + 2,
    }
    assert cost.items["Query"] == node_reads(nodes)
    assert cost.items["TransactWriteItems"] == 3 * nodes + recordings + 3 * batches + waits(nodes) + 5
    assert cost.ec2_calls == {"CreateFleet": batches, "DescribeInstances": polls + at_least(nodes, 1_000)}


@pytest.mark.parametrize("nodes", COUNTS)
def test_a_create_uses_exactly_as_many_write_units_as_the_formula_says(nodes: int) -> None:
    cost = measure(nodes)
    kilobytes = at_least(max(cost.node_bytes), KILOBYTE)
    # A node is written when it is asked for, when it is launched, and when it is Ready.
    conditions = 2 * at_least(nodes, 99)
    # The operation lists the first node of each launch, and is above a kilobyte after the 42nd.
    operation = 10 * launches(nodes)[0] + 4 * waits(nodes) + 2 * (launches(nodes)[0] // 42)
    assert cost.write_units == 2 * 3 * nodes * kilobytes + operation + conditions + 12
    assert cost.items["index"] == 2


def test_a_nodes_record_fits_a_kilobyte() -> None:
    """A byte more would double what its writes cost."""
    assert max(measure(5_000).node_bytes) <= KILOBYTE


@pytest.mark.parametrize("nodes", COUNTS)
def test_reads_cost_what_is_read(nodes: int) -> None:
    cost = measure(nodes)
    most = at_least(node_reads(nodes) * max(cost.node_bytes), 4_096) + cost.calls["Query"]
    # Single records have up to 8 kB.
    most += 2 * cost.calls["GetItem"]
    assert 0.8 * most - 40 <= cost.read_units <= most


@pytest.mark.parametrize("nodes", COUNTS)
def test_what_a_create_reads_grows_no_faster_than_its_nodes(nodes: int) -> None:
    """Though it is launched in portions: five reads of each node, and six where it waits for its turn."""
    assert measure(nodes).items["Query"] <= (5 if nodes <= 100 else 6) * nodes


@pytest.mark.parametrize("nodes", VIRTUAL_CLUSTER_COUNTS)
def test_a_virtual_clusters_change_costs_by_the_nodes_that_change(nodes: int) -> None:
    """Two units for each of them, for the history, and for each kB of the record that names all nodes."""
    costs = measure_virtual_cluster(nodes)
    for step, changed in (("create", nodes), ("grow by 10", 10), ("shrink by 10", 10), ("delete", nodes)):
        cost = costs[step]
        # A delete replaces the record by a small one, and pays for what it was.
        record = costs["shrink by 10"].record_bytes if step == "delete" else cost.record_bytes
        before = costs["grow by 10"].record_bytes if step == "shrink by 10" else 0
        kilobytes = at_least(max(record, before), KILOBYTE)
        # Where nodes are claimed before a record is made, another is made before them.
        reserved = step == "create" and changed > 98
        assert cost.write_units == 2 * (changed + 1 + kilobytes + reserved), step
        assert cost.items["TransactWriteItems"] == changed + 2 + reserved, step
        # All that fits goes with the record itself.
        beside = 100 if step == "delete" else 98
        more = changed if step == "delete" else changed - beside
        assert cost.calls["TransactWriteItems"] == 1 + at_least(max(0, more), 100) + reserved, step


@pytest.mark.parametrize("nodes", VIRTUAL_CLUSTER_COUNTS)
def test_a_virtual_cluster_is_read_in_one_call_whatever_its_size(nodes: int) -> None:
    cost = measure_virtual_cluster(nodes)["read"]
    assert cost.calls == {"GetItem": 1}
    assert cost.read_units == at_least(measure_virtual_cluster(nodes)["create"].record_bytes, 4_096)


@pytest.mark.parametrize("nodes", VIRTUAL_CLUSTER_COUNTS)
def test_growing_reads_one_page_of_nodes_and_not_all(nodes: int) -> None:
    cost = measure_virtual_cluster(nodes)["grow by 10"]
    assert cost.items["Query"] <= 1_100
    assert cost.calls["Query"] <= 2
    assert cost.calls["BatchGetItem"] == 0


def test_the_page_has_the_tables_that_the_bench_prints() -> None:
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert table() in text
    assert virtual_cluster_table() in text
