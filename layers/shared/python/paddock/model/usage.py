"""The machine time that nodes have used: the intervals on record, and their sums over slots of time.

Everything is counted in whole nanoseconds, so that the sums of any two granularities are exactly the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from paddock.model.identity import ClusterName, NodeId
from paddock.model.node_lifecycle import has_machine
from paddock.model.time import DAY_NS, HOUR_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from paddock.model.node import Node

# Ended intervals are kept for this long after their end.
USAGE_RETENTION_NS = 400 * DAY_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageInterval:
    """The record that a node used a machine from ``start`` until ``end``, in ns since the epoch.

    It holds the machine's type and price of that time, so that no later change of the definition changes the
    past. ``cores`` are vCPU; ``price_per_hour`` is for the whole machine, ``None`` if no price was given.
    """

    cluster: ClusterName
    node_id: NodeId
    name: str
    node_array: str
    machine_type: str
    cores: int
    price_per_hour: float | None
    interruptible: bool
    start: int
    end: int
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """The kind and price of machine under which usage is summed up."""

    node_array: str
    machine_type: str
    cores: int
    interruptible: bool
    price_per_hour: float | None


@dataclass(frozen=True, slots=True)
class NodeUse:
    """One node's share of a slot: ``used`` is in ns of the whole machine."""

    id: str
    name: str
    machine: Machine
    used: int


@dataclass(slots=True)
class Slot:
    """The use from ``start`` (inclusive) until ``end`` (exclusive), both in ns since the epoch.

    ``machines`` has the ns for which machines were used, summed over all nodes; ``nodes`` has the same by
    node. Neither lists machines that were not used.
    """

    start: int
    end: int
    machines: dict[Machine, int] = field(default_factory=dict)
    nodes: list[NodeUse] = field(default_factory=list)


def interval_until(node: Node, end: int) -> UsageInterval | None:
    """The interval for which a node has used its machine if the use ends now; ``None`` if it uses none.

    A node uses its machine from the launch until the instance is gone.
    """
    if not node.launched_at or not node.uses_limits or not has_machine(node):
        return None
    return UsageInterval(
        cluster=node.cluster,
        node_id=node.id,
        name=node.name,
        node_array=node.spec.node_array,
        machine_type=node.spec.machine_type,
        cores=node.spec.vcpu_count,
        price_per_hour=node.spec.price_per_hour,
        interruptible=node.spec.interruptible,
        start=node.launched_at,
        end=end,
    )


def sum_by_machine(intervals: Iterable[UsageInterval], edges: Sequence[int]) -> list[Slot]:
    """One slot between any two neighbouring ``edges``, with what was used in it; ``nodes`` stay empty.

    Edges ascend; use outside of them is left out. The time it takes grows with intervals plus slots, not with
    their product, so thousands of nodes that ran for all of a month are summed up by the hour at once.
    """
    series: defaultdict[Machine, _Series] = defaultdict(lambda: _Series(edges))
    for interval in intervals:
        series[_machine(interval)].add(interval.start, interval.end)
    slots = [Slot(start, end) for start, end in pairwise(edges)]
    for machine, used in series.items():
        for slot, amount in zip(slots, used.amounts(), strict=True):
            if amount:
                slot.machines[machine] = amount
    return slots


def count_node_uses(intervals: Iterable[UsageInterval], edges: Sequence[int]) -> int:
    """How many entries ``add_nodes`` would make at the most."""
    return sum(len(_slots_of(interval, edges)) for interval in intervals)


def add_nodes(slots: Sequence[Slot], intervals: Iterable[UsageInterval], edges: Sequence[int]) -> None:
    """Fill in the slots' ``nodes``, in the order of their ids. ``slots`` are those between these edges."""
    used: list[defaultdict[tuple[str, str, Machine], int]] = [defaultdict(int) for _ in slots]
    for interval in intervals:
        key = (interval.node_id, interval.name, _machine(interval))
        for index in _slots_of(interval, edges):
            used[index][key] += min(interval.end, edges[index + 1]) - max(interval.start, edges[index])
    for slot, uses in zip(slots, used, strict=True):
        slot.nodes = [NodeUse(*key, used=uses[key]) for key in sorted(uses, key=lambda key: key[0])]


def core_hours(machines: Mapping[Machine, int]) -> float:
    """The core-hours of an amount of use, given in ns by machine."""
    return sum(used * machine.cores for machine, used in machines.items()) / HOUR_NS


def cost(machines: Mapping[Machine, int]) -> float | None:
    """The cost of the use; ``None`` if a price is missing, since a sum without it would be too low."""
    total = 0.0
    for machine, used in machines.items():
        if machine.price_per_hour is None:
            return None
        total += machine.price_per_hour * used / HOUR_NS
    return total


class _Series:
    """Ns used in each slot. An interval counts as all of each slot that it touches, less the surplus."""

    def __init__(self, edges: Sequence[int]) -> None:
        self._edges = edges
        self._changes = [0] * len(edges)
        self._too_much = [0] * len(edges)

    def add(self, start: int, end: int) -> None:
        touched = _touched(start, end, self._edges)
        if touched:
            first, last = touched[0], touched[-1]
            self._changes[first] += 1
            self._changes[last + 1] -= 1
            self._too_much[first] += max(0, start - self._edges[first])
            self._too_much[last] += max(0, self._edges[last + 1] - end)

    def amounts(self) -> Iterator[int]:
        counts = accumulate(self._changes)
        for (start, end), count, too_much in zip(pairwise(self._edges), counts, self._too_much, strict=False):
            yield count * (end - start) - too_much


def _slots_of(interval: UsageInterval, edges: Sequence[int]) -> range:
    return _touched(interval.start, interval.end, edges)


def _touched(start: int, end: int, edges: Sequence[int]) -> range:
    """The indexes of the slots that share any time with this interval."""
    start, end = max(start, edges[0]), min(end, edges[-1])
    if start >= end:
        return range(0)
    return range(bisect_right(edges, start) - 1, bisect_left(edges, end))


def _machine(interval: UsageInterval) -> Machine:
    return Machine(
        node_array=interval.node_array,
        machine_type=interval.machine_type,
        cores=interval.cores,
        interruptible=interval.interruptible,
        price_per_hour=interval.price_per_hour,
    )
