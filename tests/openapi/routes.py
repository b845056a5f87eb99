"""What the template and the models do not say of each route: what it is for, and what it can answer.

A route is named by its handler's module. ``tests/unit/test_openapi.py`` fails for one that is missing here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paddock import errors
from paddock.http.errors import CLUSTERS, NODES, VIRTUAL_CLUSTERS
from paddock.model.base import MAX_NODES, MAX_REVISION
from paddock.requests.bodies import (
    ClusterWrite,
    NodeCreationRequest,
    NodeManagementRequest,
    RevisionOnly,
    ScaleRequest,
    VirtualClusterWrite,
)
from paddock.requests.timeframe import UsageQuery
from tests.openapi import replies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from paddock.errors import PaddockError
    from paddock.http.errors import Surface

JsonSchema = dict[str, Any]

ETAG, LOCATION = "ETag", "Location"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query parameter."""

    schema: JsonSchema
    text: str
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route. ``replies`` and ``headers`` are by status; ``errors`` are those that tell of the request.

    ``query`` names parameters, and ``query_model`` has the fields of further ones. ``text`` goes on where the
    first line of the handler's module ends.
    """

    tag: str
    surface: Surface
    replies: Mapping[int, type[BaseModel]]
    headers: Sequence[str] = ()
    is_list: bool = False
    query: Mapping[str, Query] = field(default_factory=dict)
    query_model: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    needs_body: bool = False
    takes_if_match: bool = False
    errors: Sequence[type[PaddockError]] = ()
    uses_aws: bool = True
    text: str = ""


BOOLEAN: JsonSchema = {"type": "boolean", "default": False}
REVISION: JsonSchema = {"type": "integer", "minimum": 0, "maximum": MAX_REVISION}
NEXT = Query(schema={"type": "string"}, text="The `nextToken` of the page before.")
EXPECTED = Query(schema=REVISION, text="The revision that you read, as `If-Match`; one of them is enough.")


def _limit(most: int, default: str) -> Query:
    return Query(
        schema={"type": "integer", "minimum": 1, "maximum": most},
        text=f"The most entries in the reply. Left out: {default}.",
    )


_ANSWERS_TO_A_BODY = (errors.MalformedBody, errors.InvalidRequest)


def _action(text: str) -> Route:
    return Route(
        tag="Nodes",
        surface=NODES,
        replies={202: replies.NodeManagementResult},
        headers=(LOCATION,),
        body=NodeManagementRequest,
        needs_body=True,
        errors=(*_ANSWERS_TO_A_BODY, errors.NotFound, errors.DuplicateRequest, errors.RecordTooLarge),
        text=f"{text} Several selectors select each node that one of them does. A node that cannot be "
        "changed so is left as it is, and its result says why.",
    )


ROUTES: Mapping[str, Route] = {
    "get_health": Route(
        tag="Service",
        surface=CLUSTERS,
        replies={200: replies.Health},
        uses_aws=False,
        text="It asks no other service.",
    ),
    "get_openapi": Route(
        tag="Service",
        surface=CLUSTERS,
        replies={200: replies.OpenApiDocument},
        headers=(ETAG,),
        uses_aws=False,
        text="It changes with a deployment only, which `ETag` tells.",
    ),
    "get_self": Route(
        tag="Machines",
        surface=CLUSTERS,
        replies={200: replies.Self},
        errors=(errors.NotFound,),
        text="Signed (SigV4) by the role of the instance's profile, whose session is named after it. "
        "An instance of no node is told 404.",
    ),
    "list_clusters": Route(
        tag="Clusters",
        surface=CLUSTERS,
        replies={200: replies.ClusterList},
        query={"nextToken": NEXT},
        errors=(errors.InvalidRequest,),
    ),
    "put_cluster": Route(
        tag="Clusters",
        surface=CLUSTERS,
        replies={200: replies.Cluster, 201: replies.Cluster},
        headers=(ETAG,),
        query={"revision": EXPECTED},
        body=ClusterWrite,
        needs_body=True,
        takes_if_match=True,
        errors=(
            *_ANSWERS_TO_A_BODY,
            errors.RecordTooLarge,
            errors.RevisionConflict,
            errors.NodesInUse,
        ),
        text="The body replaces the definition, if the revision is the current one. A cluster that does not "
        "exist is created; its revision is left out or 0. A lowered limit stops new nodes and ends none.",
    ),
    "get_cluster": Route(
        tag="Clusters",
        surface=CLUSTERS,
        replies={200: replies.Cluster},
        headers=(ETAG,),
        errors=(errors.NotFound,),
        text="PUT takes the reply as it is.",
    ),
    "delete_cluster": Route(
        tag="Clusters",
        surface=CLUSTERS,
        replies={200: replies.ClusterDeletion},
        query={"revision": EXPECTED},
        body=RevisionOnly,
        takes_if_match=True,
        errors=(
            *_ANSWERS_TO_A_BODY,
            errors.NotFound,
            errors.RevisionConflict,
            errors.NodesInUse,
        ),
    ),
    "get_cluster_status": Route(
        tag="Clusters",
        surface=CLUSTERS,
        replies={200: replies.ClusterStatus},
        query={"nodes": Query(schema=BOOLEAN, text="Whether the reply has the nodes too.")},
        errors=(errors.InvalidRequest, errors.NotFound),
    ),
    "get_cluster_usage": Route(
        tag="Clusters",
        surface=CLUSTERS,
        replies={200: replies.ClusterUsage},
        query_model=UsageQuery,
        errors=(errors.InvalidRequest, errors.NotFound),
        text="All times are UTC.",
    ),
    "list_nodes": Route(
        tag="Nodes",
        surface=CLUSTERS,
        replies={200: replies.NodeList},
        query={
            "operation": Query(schema={"type": "string"}, text="Only the nodes of this operation."),
            "operation_id": Query(schema={"type": "string"}, text="Another name of `operation`."),
            "request_id": Query(
                schema={"type": "string"},
                text="Only the nodes of the operation that this request id started.",
            ),
            "maxResults": _limit(MAX_NODES, "as many as a reply has room for"),
            "nextToken": NEXT,
        },
        errors=(errors.InvalidRequest, errors.NotFound),
    ),
    "create_nodes": Route(
        tag="Nodes",
        surface=NODES,
        replies={202: replies.NodeCreationResult},
        headers=(LOCATION,),
        body=NodeCreationRequest,
        needs_body=True,
        errors=(*_ANSWERS_TO_A_BODY, errors.NotFound, errors.DuplicateRequest, errors.RecordTooLarge),
        text="Limits may leave room for fewer nodes than a set asks for; the reply then says how many were "
        "added, and why. A request id that was used before is refused, and the refusal names the operation "
        "that it started.",
    ),
    "terminate_nodes": _action("Nodes with `KeepAlive` are refused."),
    "shutdown_nodes": _action("Terminates a node, or deallocates it where its `ShutdownPolicy` says so."),
    "deallocate_nodes": _action("Stops the instances, and gives back the limits."),
    "start_nodes": _action(
        "Starts nodes that are Off, Deallocated, or Failed without an instance, within limits."
    ),
    "remove_nodes": _action("Terminates nodes, and forgets `Fixed` ones too."),
    "restart_nodes": _action("Reboots the instances."),
    "reimage_nodes": _action("Ends the instance, then launches another for the same node."),
    "retry_failed_nodes": Route(
        tag="Nodes",
        surface=NODES,
        replies={200: replies.RetryResult},
        headers=(LOCATION,),
        errors=(errors.NotFound,),
        text="A body is ignored.",
    ),
    "scale_nodes": Route(
        tag="Nodes",
        surface=NODES,
        replies={202: replies.NodeCreationResult},
        headers=(LOCATION,),
        query_model=ScaleRequest,
        body=ScaleRequest,
        errors=(*_ANSWERS_TO_A_BODY, errors.NotFound, errors.DuplicateRequest, errors.RecordTooLarge),
        text="It never takes nodes away. Each field may be in the query or in the body; in both, it must be "
        "the same.",
    ),
    "list_operations": Route(
        tag="Operations",
        surface=CLUSTERS,
        replies={200: replies.OperationStatus},
        is_list=True,
        query={
            "request_id": Query(
                schema={"type": "string", "minLength": 1}, text="The request id.", required=True
            )
        },
        errors=(errors.InvalidRequest,),
        text="The reply has one element, or none where the request id is not known.",
    ),
    "get_operation": Route(
        tag="Operations",
        surface=CLUSTERS,
        replies={200: replies.OperationStatus},
        errors=(errors.NotFound,),
    ),
    "write_virtual_cluster": Route(
        tag="Virtual clusters",
        surface=VIRTUAL_CLUSTERS,
        replies={200: replies.WrittenVirtualClusterReply, 202: replies.WrittenVirtualClusterReply},
        headers=(ETAG, LOCATION),
        query={"revision": EXPECTED},
        body=VirtualClusterWrite,
        needs_body=True,
        takes_if_match=True,
        errors=(
            *_ANSWERS_TO_A_BODY,
            errors.RecordTooLarge,
            errors.NotFound,
            errors.RevisionConflict,
            errors.ImmutableAttribute,
            errors.InsufficientNodes,
        ),
        text="The body is the whole wish: a node type that it leaves out goes to 0. 202 says that nodes are "
        "still being launched; `Location` then names the operation.",
    ),
    "list_virtual_clusters": Route(
        tag="Virtual clusters",
        surface=VIRTUAL_CLUSTERS,
        replies={200: replies.VirtualClusterListReply},
        query={
            "maxResults": _limit(1_000, "as many as a reply has room for"),
            "nextToken": NEXT,
        },
        errors=(errors.InvalidRequest,),
    ),
    "get_virtual_cluster": Route(
        tag="Virtual clusters",
        surface=VIRTUAL_CLUSTERS,
        replies={200: replies.VirtualClusterReply},
        headers=(ETAG,),
        errors=(errors.NotFound,),
    ),
    "get_virtual_cluster_history": Route(
        tag="Virtual clusters",
        surface=VIRTUAL_CLUSTERS,
        replies={200: replies.VirtualClusterHistoryReply},
        query={
            "maxResults": _limit(1_000, "100"),
            "nextToken": Query(schema=REVISION, text="The `nextToken` of the page before."),
        },
        errors=(errors.InvalidRequest, errors.NotFound),
        text="Changes are kept for 90 days, also after the virtual cluster was deleted.",
    ),
    "delete_virtual_cluster": Route(
        tag="Virtual clusters",
        surface=VIRTUAL_CLUSTERS,
        replies={200: replies.VirtualClusterDeletionReply},
        query={
            "revision": EXPECTED,
            "terminate": Query(schema=BOOLEAN, text="Whether its nodes end too."),
        },
        body=RevisionOnly,
        takes_if_match=True,
        errors=(*_ANSWERS_TO_A_BODY, errors.NotFound, errors.RevisionConflict),
    ),
}

TAGS: Mapping[str, str] = {
    "Clusters": "Fleets of nodes: node arrays with their machine types and limits.",
    "Nodes": "Nodes are made, changed and ended by operations.",
    "Operations": "How far an operation is, or how it ended.",
    "Virtual clusters": "Named, revisioned claims on nodes of a cluster.",
    "Machines": "What an instance may learn of itself.",
    "Service": "The API itself.",
}

# What comes with an error, beside its word and its message; ``?`` marks what only some of its causes have.
FACTS: Mapping[type[PaddockError], Mapping[str, JsonSchema]] = {
    errors.RevisionConflict: {
        "revision": {**REVISION, "description": "The current revision; 0 where there is no such thing."},
        "virtualClusterId?": {"type": "string", "description": "The virtual cluster."},
    },
    errors.DuplicateRequest: {
        "operationId": {"type": "string", "description": "The operation that the request id started."},
        "requestId": {"type": "string", "description": "The request id."},
    },
    errors.ImmutableAttribute: {
        "attribute": {"type": "string", "description": "Which attribute is set for life."}
    },
    errors.NodesInUse: {
        "nodeCount?": {"type": "integer", "minimum": 1, "description": "How many nodes there are."},
        "placementGroups?": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Placement groups that EC2 still has.",
        },
        "buckets?": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Buckets that nodes still use.",
        },
    },
    errors.InsufficientNodes: {
        "replicaSetsToRecommend": {
            "type": "object",
            "additionalProperties": {"type": "integer", "minimum": 0},
            "description": "Replica sets that would succeed now.",
        },
        "missing": {
            "type": "object",
            "additionalProperties": {"type": "integer", "minimum": 0},
            "description": "How many nodes of each node type are missing.",
        },
    },
    errors.NotFound: {"virtualClusterId?": {"type": "string", "description": "The virtual cluster."}},
    errors.InvalidRequest: {
        "nodeTypes?": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The node types that the cluster has.",
        }
    },
}
# What AWS can answer to any call of it: nothing was done, or nobody can tell.
PASSING: Sequence[type[PaddockError]] = (
    errors.Busy,
    errors.StoreThrottled,
    errors.StoreUnavailable,
    errors.WorkflowsUnavailable,
    errors.ComputeThrottled,
    errors.ComputeUnavailable,
)
