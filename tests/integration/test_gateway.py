"""The gateway before the functions: who gets in, which function a request reaches, what a stray one hears."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from paddock.http.routes import METHODS
from tests.integration.story import create, finished, new_cluster

if TYPE_CHECKING:
    from tests.emulator.client import Client, Reply

# A path of each route but the one that is open and the one that takes AWS's own signatures.
PATHS = [re.sub(r"{\w+}", "none", path) for path in METHODS if path not in ("/healthz", "/self")]


def problem(reply: Reply) -> dict[str, Any]:
    """Return an error's body, having checked that it has both surfaces' shapes."""
    body: dict[str, Any] = reply.json()
    assert body.keys() >= {"Message", "Detail", "result", "msg", "data"}
    assert body["result"] is False
    assert body["data"]["code"]
    return body


@pytest.mark.proves("every route: 401")
@pytest.mark.parametrize("path", [*PATHS, "/", "/no/such/route"])
def test_credentials_are_asked_for_on_every_path(client: Client, path: str) -> None:
    _is_asked_for(client.without_credentials().get(path))


@pytest.mark.proves("every route: 401")
@pytest.mark.parametrize("path", ["/clusters", "/virtual_clusters/none", "/no/such/route"])
@pytest.mark.parametrize("credentials", [("admin", "wrong"), ("nobody", "paddock-local")])
def test_wrong_credentials_are_asked_for_again(
    client: Client, path: str, credentials: tuple[str, str]
) -> None:
    _is_asked_for(client.with_credentials(credentials).get(path))


def _is_asked_for(reply: Reply) -> None:
    assert reply.status == 401
    assert reply.headers["www-authenticate"].startswith("Basic realm=")
    assert problem(reply)["data"]["code"] == "Unauthorized"


@pytest.mark.parametrize("header", ["Bearer abc", "Basic", "Basic !!!", "Basic OjpOag==", "x" * 4000])
def test_a_strange_authorization_header_is_a_401(client: Client, header: str) -> None:
    assert client.without_credentials().get("/clusters", Authorization=header).status == 401


@pytest.mark.proves("GET /healthz: 200")
def test_health_needs_no_credentials_and_tells_nothing(client: Client) -> None:
    anybody = client.without_credentials()
    for path in ("/healthz", "/healthz/"):
        reply = anybody.get(path)
        assert (reply.status, reply.json()) == (200, {"status": "ok"})
    _is_asked_for(anybody.post("/healthz"))
    assert client.with_credentials(("admin", "wrong")).get("/healthz").status == 200


def test_the_description_of_the_api_is_served(client: Client) -> None:
    reply = client.get("/openapi.json")
    assert (reply.status, reply.json()["openapi"]) == (200, "3.1.0")
    assert reply.headers["etag"]


@pytest.mark.proves("every route: 405")
@pytest.mark.parametrize("path", [*PATHS, "/healthz"])
def test_a_wrong_method_is_told_the_right_ones(client: Client, path: str) -> None:
    reply = client.request("PATCH", path, {})
    assert reply.status == 405
    assert reply.headers["allow"]
    problem(reply)


@pytest.mark.proves("any other path: 404")
@pytest.mark.parametrize("path", ["/", "/no/such/route", "/clusters/none/nodes/juggle", "/Clusters"])
def test_an_unknown_route_is_a_404(client: Client, path: str) -> None:
    reply = client.get(path)
    assert reply.status == 404
    problem(reply)


def test_a_slash_at_the_end_changes_nothing(client: Client) -> None:
    """Clients of the clusters surface ask for ``/operations/?request_id=…``."""
    for path in ("/clusters", "/virtual_clusters"):
        assert client.get(f"{path}/").status == client.get(path).status == 200
    assert (
        client.get("/operations/?request_id=none").status == client.get("/operations?request_id=none").status
    )


def test_a_client_that_reads_gzip_gets_it_and_any_other_gets_text(client: Client) -> None:
    cluster = new_cluster(client)
    finished(client, create(client, cluster, 5).json()["operationId"])
    path = f"/clusters/{cluster}/nodes"
    plain = client.get(path)
    assert "content-encoding" not in plain.headers
    packed = client.get(path, Accept_Encoding="deflate, gzip;q=0.5")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert packed.headers["content-type"] == "application/json"
    assert len(packed.body) < len(plain.body) / 2
    assert json.loads(gzip.decompress(packed.body)) == plain.json()
    for headers in ({"Accept_Encoding": "gzip;q=0"}, {"Accept_Encoding": "gzip", "Accept": ""}):
        assert client.get(path, **headers).body == plain.body


def test_nodes_come_in_pages(client: Client) -> None:
    cluster = new_cluster(client)
    create(client, cluster, 5)
    found, query = [], "maxResults=2"
    while query:
        page = client.get(f"/clusters/{cluster}/nodes?{query}").json()
        found.append([node["Name"] for node in page["nodes"]])
        query = f"maxResults=2&nextToken={page['nextToken']}" if "nextToken" in page else ""
    assert found == [["ondemand-1", "ondemand-2"], ["ondemand-3", "ondemand-4"], ["ondemand-5"]]
    for query in ("maxResults=0", "maxResults=x", "nextToken=x"):
        assert client.get(f"/clusters/{cluster}/nodes?{query}").status == 400
    assert client.get("/virtual_clusters?nextToken=%23").status == 400
