"""Ids and revisions.

An operation's id is a UUID of version 7 (RFC 9562), so that ids follow each other in time, whose last five
digits are zero; the ids of the nodes that it makes are the same UUID with their index, in decimal, in that
place. So the records of a create can be written again with the same result, a node tells its operation, nodes
are listed in the order of their creation, and a set of node ids is as short as a set of names.
"""

from __future__ import annotations

import re
from secrets import randbits
from typing import NewType
from uuid import UUID, uuid5

# Ids are strings that look alike. These types keep a node's id from being passed for an operation's.
ClusterName = NewType("ClusterName", str)
InstanceId = NewType("InstanceId", str)
NodeId = NewType("NodeId", str)
OperationId = NewType("OperationId", str)
RequestId = NewType("RequestId", str)
VirtualClusterId = NewType("VirtualClusterId", str)

NS_PER_REVISION = 1_000
_INDEX_DIGITS = 5
MAX_INDEX = 10**_INDEX_DIGITS - 1
_UID_BITS = 64
# Where RFC 9562 wants the milliseconds, the version and the variant.
_RANDOM_BITS, _VERSION_AT, _VARIANT_AT = 80, 76, 62
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def new_operation_id(now_ns: int) -> OperationId:
    """A fresh operation id."""
    random = randbits(_RANDOM_BITS) & ~(0xF << _VERSION_AT) & ~(0b11 << _VARIANT_AT)
    milliseconds = now_ns // 1_000_000
    value = milliseconds << _RANDOM_BITS | 7 << _VERSION_AT | 0b10 << _VARIANT_AT | random
    return OperationId(str(UUID(int=value))[:-_INDEX_DIGITS] + "0" * _INDEX_DIGITS)


def new_uid() -> str:
    """A fresh uid: it distinguishes clusters that bear the same name after each other, as in Kubernetes."""
    return f"{randbits(_UID_BITS):016x}"


def derived_operation_id(operation_id: OperationId, action: str) -> OperationId:
    """The id of the operation that cleans up after this one by an action; each call gives the same."""
    return OperationId(str(uuid5(UUID(operation_id), action))[:-_INDEX_DIGITS] + "0" * _INDEX_DIGITS)


def node_id(operation_id: OperationId, index: int) -> NodeId:
    """The id of an operation's node; ``index`` counts from 1."""
    return NodeId(f"{operation_id[:-_INDEX_DIGITS]}{index:0{_INDEX_DIGITS}}")


def operation_of(node_id: NodeId) -> OperationId:
    """The id of the operation that made this node."""
    return OperationId(node_id[:-_INDEX_DIGITS] + "0" * _INDEX_DIGITS)


def node_index(node_id: NodeId) -> int:
    """A node's index among the nodes of its operation."""
    return int(node_id[-_INDEX_DIGITS:])


def is_id(text: str) -> bool:
    """Whether this can be an id at all; other texts need not be looked up."""
    return _ID.fullmatch(text) is not None


def next_revision(now_ns: int, previous: int = 0) -> int:
    """A revision above the previous one, also when the clock stands behind it.

    Revisions are microseconds since the epoch, as long as they can be: JavaScript and jq 1.6 round numbers
    above 2^53, which microseconds reach in the year 2255 and nanoseconds have passed.
    """
    return max(now_ns // NS_PER_REVISION, previous + 1)


def revised_at(revision: int) -> int:
    """About when a record got this revision, in ns since the epoch."""
    return revision * NS_PER_REVISION
