"""Committing a virtual cluster's change, whatever the number of nodes.

Readers see the virtual cluster's own record, which is one write: before it nothing has changed, after it all
has. What fits is in the same transaction. Claims that do not fit are made before it, in transactions of their
own, and nodes that do not fit are given back after it. A claim that no record confirms, since its writer died
or lost a race, is given back by the writer, by the next change of that virtual cluster, or by the reconciler
after a while.

However long a writer sleeps, it does not commit with claims that it has lost. Its commit names the record
that it read, of the virtual cluster or its tombstone; such a record exists before the first early claim. A
process that gives back a claim which the commit could confirm first gives that record a new revision; only a
writer that gives back its own claims need not. And each claim is given back as it was read, so a claim that
another writer has made anew since, for a commit on the new revision, stays.

A node is claimed by a write even where it names the virtual cluster already. So a process that was about to
give it back, as a leftover of an earlier update, finds it changed. A writer that loses gives back only nodes
that were free before: a node that named the virtual cluster already may belong to the writer that won.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paddock.errors import TransientStore
from paddock.model.node import Node
from paddock.model.node_lifecycle import claimed_for, given_back, unclaimed
from paddock.model.time import SECOND_NS
from paddock.model.virtual_cluster import ConditionReason, change_between, tombstone
from paddock.model.wording import counted
from paddock.ports.repository import Put, WriteConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.model.identity import VirtualClusterId
    from paddock.model.virtual_cluster import VirtualCluster
    from paddock.ports.repository import Write
    from paddock.store.store import Store, Written

# No function that claims runs for longer than half of this, so no running function loses its claims. That
# lost claims are not confirmed does not depend on it.
CLAIM_GRACE_NS = 120 * SECOND_NS

_MAX_REASONS = 5

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A virtual cluster's next state, the nodes it takes and gives back, and what else is written with it.

    ``action`` and ``by`` are for its history.
    """

    after: VirtualCluster
    claimed: Sequence[Node] = ()
    released_nodes: Sequence[Node] = ()
    other_writes: Sequence[Write] = ()
    action: str
    by: str = ""
    message: str = ""


def commit_change(store: Store, stored: VirtualCluster | None, change: Change) -> Written:
    """Commit the change, or raise ``WriteConflictError`` with nothing done; returns the final transaction."""
    now, after = store.now(), change.after
    record = change_between(stored, after, change.action, now, by=change.by, message=change.message)
    head: list[Write] = [Put(after, was=stored), Put(record, was=None), *change.other_writes]
    claims = {node.id: claimed_for(node, after.id, after.uid, now) for node in change.claimed}
    room = store.max_writes - len(head)
    while True:
        first = max(0, len(change.claimed) - room)
        early, late = change.claimed[:first], change.claimed[first:]
        with_head, afterwards = (
            change.released_nodes[: room - len(late)],
            change.released_nodes[room - len(late) :],
        )
        # An earlier claim may come to nothing; these nodes are in the virtual cluster if they are claimed.
        together: list[Write] = [Put(replace(claims[node.id], was_held=True), was=node) for node in late]
        together += [Put(given_back(node, now), was=node) for node in with_head]
        if not room or store.fits(*head, *together):
            break
        room //= 2
    if early and stored is None:
        return commit_change(store, _reserved(store, after, now), change)
    claimed = store.commit_each([Put(claims[node.id], was=node) for node in early])
    conflicts = claimed.conflicts
    if not conflicts:
        try:
            written = store.commit(*head, *together)
        except WriteConflictError as conflict:
            conflicts = conflict.writes
    if conflicts:
        lost = {write.was.id for write in conflicts if isinstance(write.was, Node)}
        taken = [node for node in early if node.id not in lost and not node.virtual_cluster]
        unclaim(store, [claimed.stored(claims[node.id]) for node in taken], now)
        raise WriteConflictError(conflicts)
    release_claims(store, afterwards, now)
    return written


def _reserved(store: Store, virtual_cluster: VirtualCluster, now: int) -> VirtualCluster:
    """Write a record of an id that was never used, so that the commit after early claims can name it."""
    made = replace(
        tombstone(virtual_cluster.id, virtual_cluster.cluster, now), reserved=True, uid=virtual_cluster.uid
    )
    return store.commit(Put(made, was=None)).stored(made)


def release_claims(store: Store, nodes: Sequence[Node], now: int) -> None:
    """Give back these nodes, which their virtual cluster had; nodes that have changed since are left.

    The change that they were claimed for is decided by then. If the store fails, the reconciler gives the
    nodes back.
    """
    with suppress(TransientStore):
        store.commit_each([Put(given_back(node, now), was=node) for node in nodes])


def unclaim(store: Store, nodes: Sequence[Node], now: int) -> None:
    """Like ``release_claims``, for claims that no virtual cluster's record is known to have confirmed."""
    with suppress(TransientStore):
        store.commit_each([Put(unclaimed(node, now), was=node) for node in nodes])


def release_unconfirmed(store: Store, name: VirtualClusterId, nodes: Sequence[Node]) -> int:
    """Give back the nodes that bear this virtual cluster's name without being its own; returns their number.

    Claims younger than the longest function run are left, for they may be confirmed. The nodes are read
    before this is called. Raises ``WriteConflictError`` if the virtual cluster changes meanwhile.
    """
    stored = store.read.virtual_cluster(name)
    held = stored.held_ids() if stored is not None else ()
    now = store.now()
    stale = [
        node
        for node in nodes
        if now - node.claim_changed_at >= CLAIM_GRACE_NS
        and not (stored is not None and stored.is_claimant_of(node) and node.id in held)
    ]
    # A commit that could confirm such a claim names this record, and comes too late from now on.
    if stored is not None and any(stored.is_claimant_of(node) for node in stale):
        message = "claims that no change had confirmed were given back"
        change = change_between(stored, stored, "ClaimsReleased", now, message=message)
        store.commit(Put(stored, was=stored), *(() if stored.deleted else (Put(change, was=None),)))
    unclaim(store, stale, now)
    return len(stale)


def repair_members(store: Store, name: VirtualClusterId) -> int:
    """Take members that are not its own out of a virtual cluster; returns their number.

    Such a member is a bug, and other nodes take its place. The record is read before the nodes. A member was
    claimed before it was recorded, so a node that does not bear the claim is not a member, unless the record
    has changed since; then the write conflicts.
    """

    def attempt() -> tuple[int, str]:
        stored = store.read.virtual_cluster(name)
        if stored is None or not stored.node_instances:
            return 0, ""
        nodes = store.read.nodes_by_id(stored.cluster, stored.node_instances.keys())
        own = {node.id for node in nodes if stored.is_claimant_of(node) and node.is_ready}
        wrong = sorted(stored.node_instances.keys() - own)
        if not wrong:
            return 0, ""
        now = store.now()
        by_id = {node.id: node for node in nodes}
        reasons = "; ".join(f"{node_id} {_why_wrong(by_id.get(node_id))}" for node_id in wrong[:_MAX_REASONS])
        message = f"{counted(len(wrong), 'node was', 'nodes were')} not its own: {reasons}"
        condition = stored.condition.changed(ConditionReason.NODES_LOST, message, now)
        after = replace(stored.without(wrong), condition=condition, retry_at=0)
        change = change_between(stored, after, "NodesLost", now, message=message)
        store.commit(Put(after, was=stored), Put(change, was=None))
        return len(wrong), message

    repaired, reason = store.retry_on_conflict(attempt)
    if repaired:
        # Only now is it certain that this was no look at a record that has changed since.
        logger.error("virtual cluster repaired", extra={"virtual_cluster": name, "reason": reason})
    return repaired


def _why_wrong(node: Node | None) -> str:
    if node is None:
        return "does not exist"
    holder = node.virtual_cluster or "no virtual cluster"
    return f"({node.name}) is {node.status} and names {holder}"
