"""Committing a virtual cluster's change, whatever the number of nodes.

Readers see the virtual cluster's own record, which is one write: before it nothing has changed, after it all
has. What fits is in the same transaction. Claims that do not fit are made before it, in transactions of their
own, and nodes that do not fit are given back after it. A claim that no record confirms, since its writer died
or lost a race, is given back by the writer, by the next change of that virtual cluster, or by the reconciler
once it is older than any request can be.

A node is claimed by a write even where it names the virtual cluster already. So whoever was about to give it
back, for it was left from earlier, finds it changed. A writer that loses gives back what was free before, and
nothing else: what named the virtual cluster already may be another writer's, who has won.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock.errors import StoreThrottled, StoreUnavailable
from paddock.model.identity import next_revision
from paddock.model.node import Node
from paddock.model.operation import SECOND_NS
from paddock.model.virtual_cluster import change_between
from paddock.ports.repository import MAX_WRITES, Put, WriteConflictError
from paddock.service.contention import commit_each

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paddock.model.virtual_cluster import VirtualCluster
    from paddock.ports.clock import Clock
    from paddock.ports.repository import Repository, Write

# No function that claims runs for longer than half of this: by then a claim is confirmed, or never will be.
CLAIM_GRACE_NS = 120 * SECOND_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A virtual cluster's next state, the nodes it takes and gives back, and what else is written with it.

    ``action`` and ``by`` are for its history.
    """

    after: VirtualCluster
    claimed: Sequence[Node] = ()
    freed: Sequence[Node] = ()
    others: Sequence[Write] = ()
    action: str
    by: str = ""
    message: str = ""


def commit_change(
    repository: Repository, clock: Clock, stored: VirtualCluster | None, change: Change
) -> VirtualCluster:
    """Do it, or raise ``WriteConflictError`` with nothing done. Answers the virtual cluster as it is then."""
    now = clock.now()
    after = replace(change.after, revision=next_revision(now, stored.revision if stored else 0))
    record = change_between(stored, after, change.action, now, by=change.by, message=change.message)
    head: list[Write] = [Put(after, was=stored), Put(record, was=None), *change.others]
    claims = {node.id: node.claimed_by(after.id, now) for node in change.claimed}
    room = MAX_WRITES - len(head)
    while True:
        first = max(0, len(change.claimed) - room)
        early, late = change.claimed[:first], change.claimed[first:]
        with_it, afterwards = change.freed[: room - len(late)], change.freed[room - len(late) :]
        # What is claimed earlier may come to nothing; these are in the virtual cluster if they are claimed.
        in_one: list[Write] = [Put(replace(claims[node.id], was_held=True), was=node) for node in late]
        in_one += [Put(node.given_back_at(now), was=node) for node in with_it]
        if not room or repository.fits(*head, *in_one):
            break
        room //= 2
    conflicts = commit_each(repository, [Put(claims[node.id], was=node) for node in early])
    if not conflicts:
        try:
            repository.commit(*head, *in_one)
        except WriteConflictError as conflict:
            conflicts = [*conflict.writes]
    if conflicts:
        lost = {write.was.id for write in conflicts if isinstance(write.was, Node)}
        taken = [node for node in early if node.id not in lost and not node.virtual_cluster]
        unclaim(repository, [claims[node.id] for node in taken], now)
        raise WriteConflictError(conflicts)
    give_back(repository, afterwards, now)
    return after


def give_back(repository: Repository, nodes: Sequence[Node], now: int) -> None:
    """Give these nodes back, which their virtual cluster had, as far as they are as they were read.

    What they were claimed for is decided by then. Where the store does not take the calls, the reconciler
    gives them back.
    """
    with suppress(StoreThrottled, StoreUnavailable):
        commit_each(repository, [Put(node.given_back_at(now), was=node) for node in nodes])


def unclaim(repository: Repository, nodes: Sequence[Node], now: int) -> None:
    """Like ``give_back``, for claims that no virtual cluster's record is known to have confirmed."""
    with suppress(StoreThrottled, StoreUnavailable):
        commit_each(repository, [Put(node.claimed_by("", now), was=node) for node in nodes])


def is_stale(node: Node, held: Collection[str], now: int) -> bool:
    """Whether the node's claim is not confirmed by its holder, which holds these, and will not be."""
    return node.id not in held and now - node.claim_changed_at >= CLAIM_GRACE_NS
