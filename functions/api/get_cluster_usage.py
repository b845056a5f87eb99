"""GET /clusters/{cluster}/usage: core-hours and their cost, over time."""

from __future__ import annotations

from paddock import bootstrap
from paddock.http.endpoint import endpoint
from paddock.http.errors import CLUSTERS
from paddock.http.reply import Reply
from paddock.http.request import Request
from paddock.http.views.usage import usage_view
from paddock.requests.timeframe import UsageQuery


@endpoint(CLUSTERS)
def handler(request: Request) -> Reply:
    """Return the usage of the timeframe asked for."""
    usage = bootstrap.get_cluster_usage(request.cluster_name(), request.parameters(UsageQuery))
    return Reply(200, usage_view(usage, bootstrap.settings().region))
