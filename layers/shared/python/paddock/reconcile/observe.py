"""Observe: what has happened to the instances of nodes that no operation works on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.model.node import NodeStatus, TargetState
from paddock.model.operation import SECOND_NS
from paddock.ports.compute import InstanceState
from paddock.ports.repository import Put
from paddock.service.contention import commit_each
from paddock.service.observation import failed, is_ending, is_gone, observed, stopped
from paddock.service.settling import release_nodes, remove_nodes, settle_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paddock.model.ledger import Ledger
    from paddock.model.node import Node
    from paddock.ports.clock import Clock
    from paddock.ports.compute import Instance
    from paddock.ports.repository import Repository, Write

# A description may be older than the start that made a node Ready, and still show its instance as stopped.
STOPPED_GRACE_NS = 60 * SECOND_NS


def is_watched(node: Node) -> bool:
    """Whether the node's instance is for the reconciler to look at.

    A node on its way to another state is its operation's, which looks by itself.
    """
    at_rest = node.is_usable or node.status is NodeStatus.DEALLOCATED or is_ending(node)
    return at_rest and bool(node.instance_id)


def noticed(node: Node, instance: Instance | None, now: int) -> Node:
    """A watched node after a look at its instance; the very same where nothing is new.

    One whose instance has ended, or was not seen for long, has Failed; one whose instance is about to end has
    too, and uses up its limits until that is gone. One whose instance was stopped is
    Deallocated, and shall be: nobody brings it back but a start.
    """
    is_stopped = instance is not None and instance.state is InstanceState.STOPPED
    if is_stopped and node.is_usable and now - node.ready_at >= STOPPED_GRACE_NS:
        reason = "its instance was stopped, and not by an action of this cluster"
        return stopped(node, reason, now)
    if instance is not None and instance.state is InstanceState.SHUTTING_DOWN and node.is_usable:
        reason = f"its instance {instance.id} is being ended: {instance.state_reason or 'no reason given'}"
        return replace(failed(node, reason, now), counted=True)
    return observed(node, instance, now)


def is_done_with(node: Node, instance: Instance | None, now: int) -> bool:
    """Whether a node that could not be ended in time has ended now."""
    return node.target_state is TargetState.TERMINATED and is_gone(node, instance, now)


def observe(
    repository: Repository, clock: Clock, cluster: str, nodes: Sequence[Node], seen: Mapping[str, Instance]
) -> int:
    """Write down what has become of watched nodes of a cluster; answers how many changed their status.

    ``seen`` are the instances that the cloud showed before the nodes were read. A node that somebody else
    changes meanwhile is left to the next look.
    """
    now = clock.now()
    watched = [node for node in nodes if is_watched(node)]
    done = {node.id for node in watched if is_done_with(node, seen.get(node.instance_id), now)}
    after = {
        node.id: noticed(node, seen.get(node.instance_id), now) for node in watched if node.id not in done
    }
    before = {node.id: node for node in watched}
    released = {one for one, node in after.items() if before[one].counted and not node.counted}
    ending = {one for one, node in after.items() if before[one].is_usable and is_ending(node)}
    writes = [
        Put(node, was=before[one])
        for one, node in after.items()
        if one not in (released | ending) and node is not before[one]
    ]
    commit_each(repository, writes)

    def release(node: Node) -> Node:
        return noticed(node, seen.get(node.instance_id), clock.now()) if is_watched(node) else node

    def fail(ledger: Ledger, current: Sequence[Node]) -> tuple[Ledger, list[Write]]:
        pairs = [(node, release(node)) for node in current if node.is_usable]
        return ledger, [Put(node, was=was) for was, node in pairs if is_ending(node)]

    settle_nodes(repository, clock, cluster, ending, fail)
    release_nodes(repository, clock, cluster, released, release)
    remove_nodes(repository, clock, cluster, done, keep_fixed=True)
    return len(done) + sum(node.status is not before[one].status for one, node in after.items())
