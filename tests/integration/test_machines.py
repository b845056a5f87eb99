"""A machine asks which node it is, through the deployed route, with the signature of an instance's role."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.emulator.machine import ask_as
from tests.integration.story import create, finished, new_cluster, nodes

if TYPE_CHECKING:
    from tests.emulator.client import Client
    from tests.emulator.stack import Stack


@pytest.mark.proves("GET /self: 200")
def test_a_machine_learns_which_node_it_is_by_its_role_s_signature(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client)
    finished(client, create(client, cluster, 2).json()["operationId"])
    first, second = nodes(client, cluster)
    for node in (first, second):
        reply = ask_as(stack.endpoint, node["InstanceId"])
        assert (reply.status, reply.json()["Name"]) == (200, node["Name"])
        assert reply.json()["ClusterName"] == cluster
    assert ask_as(stack.endpoint, "i-0123456789abcdef0").status == 404


def test_a_role_without_permission_and_whoever_has_none_learn_nothing(client: Client, stack: Stack) -> None:
    cluster = new_cluster(client)
    finished(client, create(client, cluster, 1).json()["operationId"])
    [node] = nodes(client, cluster)
    assert ask_as(stack.endpoint, node["InstanceId"], may_ask=False).status == 403
    for asking in (client, client.without_credentials()):
        assert asking.get("/self").status in (403, 404)
