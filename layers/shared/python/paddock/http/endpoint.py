"""What every API function does around its use case."""

from __future__ import annotations

from functools import wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any

from paddock.errors import Busy, PaddockError, RevisionConflict
from paddock.http.errors import ANYWHERE
from paddock.http.request import Request
from paddock.http.routes import check_method
from paddock.observability import Metric, about, count, logger, observed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aws_lambda_powertools.utilities.typing import LambdaContext

    from paddock.http.errors import Surface
    from paddock.http.reply import Reply

    Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]

# How often clients meet. Both are ordinary replies; many show that a client or a limit needs attention.
_COUNTED: Mapping[type[PaddockError], Metric] = {
    RevisionConflict: Metric.REVISION_CONFLICTS,
    Busy: Metric.RACES_LOST,
}


# A message about a wrong body may quote all of it.
MAX_CAUSE_LENGTH = 1_000

# Under which key each id of a path stands in the log and in traces, everywhere.
_IDS = {"cluster": "cluster", "operation_id": "operation", "virtual_cluster": "virtualCluster"}


def endpoint(surface: Surface) -> Callable[[Callable[[Request], Reply]], Handler]:
    """Make a Lambda handler of a function from request to reply; errors become the surface's replies."""

    def decorate(answer: Callable[[Request], Reply]) -> Handler:
        @wraps(answer)
        @observed
        def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:  # noqa: ARG001
            request = Request(event)
            about(**{key: request.path(name) for key, name in _IDS.items() if request.path(name)})
            began = perf_counter()
            # What a path does not take is refused in the words of both surfaces.
            said_by = ANYWHERE
            try:
                check_method(request)
                said_by = surface
                reply = answer(request)
            except PaddockError as error:
                reply = said_by.reply(error)
                if type(error) in _COUNTED:
                    count(_COUNTED[type(error)])
                refusal = {"error": type(error).__name__, "reason": error.message}
                # A fault of AWS is reported to clients in our words; the log has AWS's own.
                logger.info(
                    "refused", extra={**refusal, "cause": str(error.__cause__ or "")[:MAX_CAUSE_LENGTH]}
                )
            except Exception as error:  # noqa: BLE001 - the outermost boundary: a client gets JSON, whatever happened
                logger.exception("unforeseen")
                reply = surface.reply(error)
            logger.info(
                "answered",
                extra={
                    "method": request.method,
                    "route": request.resource,
                    "status": int(reply.status),
                    "duration_ms": round((perf_counter() - began) * 1000),
                },
            )
            return reply.to_gateway(compress=request.accepts_gzip())

        return handler

    return decorate
