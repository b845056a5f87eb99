"""Bad weather: every call of the functions to AWS goes through a proxy that knows how AWS fails."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.emulator.client import Client
from tests.emulator.processes import HOST, Child, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.emulator.stack import Stack

SEED = 20261130
SEEDED = f"import random; random.seed({SEED}); from microburst.cli import main; main()"
# As AWS's clients name them in the environment.
AWS = ("DYNAMODB", "SECRETS_MANAGER", "SFN", "SQS")
EC2 = ("EC2", "SERVICE_QUOTAS")

ERRORS = {
    "dynamodb": ("ThrottlingException", "ProvisionedThroughputExceededException", "InternalServerError"),
    "ec2": ("RequestLimitExceeded", "InternalError", "Unavailable"),
    "secretsmanager": ("ThrottlingException", "InternalServiceError"),
    "sqs": ("RequestThrottled", "InternalError"),
    "stepfunctions": ("ThrottlingException", "InternalFailure"),
}
STATUS = {
    **dict.fromkeys(("InternalServerError", "InternalError", "InternalServiceError", "InternalFailure"), 500),
    **dict.fromkeys(("RequestLimitExceeded", "Unavailable"), 503),
}


def error(service: str, code: str, **more: Any) -> dict[str, Any]:
    """A rule: that service answers so."""
    return {"service": service, "error": {"code": code, "status": STATUS.get(code, 400)}, **more}


def lost(**more: Any) -> dict[str, Any]:
    """A rule: what was asked for is done, and the connection breaks in the middle of the answer."""
    return {"response": {"abort_frac": 0.3}, **more}


def unheard(**more: Any) -> dict[str, Any]:
    """A rule: the connection breaks before anything is done."""
    return {"reset": True, **more}


class Weather:
    """The proxies in front of the emulator and of the EC2 simulator, which have the same rules."""

    def __init__(self, ports: list[int]) -> None:
        self._proxies = [Client(f"http://{HOST}:{port}/_microburst", None) for port in ports]

    def set(self, *rules: dict[str, Any]) -> None:
        """Let these rules be all; none is fair weather."""
        for proxy in self._proxies:
            assert proxy.post("/rules", list(rules)).status == 200

    def add(self, *rules: dict[str, Any]) -> None:
        """Let these rules come last."""
        for proxy in self._proxies:
            assert proxy.request("PATCH", "/rules", list(rules)).status == 200

    def calls(self) -> tuple[int, int]:
        """How many calls went through, and how many of them met a fault."""
        counts = [proxy.get("/stats").json()["requests"] for proxy in self._proxies]
        return sum(one["total"] for one in counts), sum(one["faulted"] for one in counts)

    def fired(self) -> Counter[tuple[str, str]]:
        """Which faults there were lately: service and what happened."""
        return Counter(
            (one["service"], one["action"])
            for proxy in self._proxies
            for one in proxy.get("/fired?limit=2000").json()
        )


@contextmanager
def weather(stack: Stack, directory: Path) -> Iterator[Weather]:
    """Send all functions' calls through proxies, whose rules are the weather. The stack's own end ends it."""
    places = {free_port(): (stack.endpoint, AWS), free_port(): (stack.ec2_endpoint, EC2)}
    children: list[Child] = []
    functions = stack.aws("lambda")
    try:
        through: dict[str, str] = {}
        for port, (upstream, services) in places.items():
            # The emulator checks signatures, which cover the address, so each call is signed anew.
            arguments = [
                sys.executable,
                "-c",
                SEEDED,
                "--resign",
                "--upstream",
                upstream,
                "--port",
                str(port),
            ]
            child = Child("microburst", arguments, stack._environment(), directory / f"{port}.log")
            children.append(child)
            child.wait_until_listening(port)
            through |= {f"AWS_ENDPOINT_URL_{name}": f"http://{HOST}:{port}" for name in services}
        # At the first call it reads a service's model, for longer than a function would wait.
        by_name = {name: through[f"AWS_ENDPOINT_URL_{name}"] for name in (*AWS, *EC2)}
        stack.aws("ec2", by_name["EC2"]).describe_placement_groups()
        stack.aws("service-quotas", by_name["SERVICE_QUOTAS"]).list_service_quotas(ServiceCode="ec2")
        stack.aws("dynamodb", by_name["DYNAMODB"]).list_tables()
        stack.aws("secretsmanager", by_name["SECRETS_MANAGER"]).list_secrets()
        stack.aws("stepfunctions", by_name["SFN"]).list_state_machines()
        stack.aws("sqs", by_name["SQS"]).list_queues()
        for name in stack._function_arns().values():
            now = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
            functions.update_function_configuration(
                FunctionName=name, Environment={"Variables": {**now, **through}}
            )
        yield Weather(list(places))
    finally:
        for child in children:
            child.stop(signal.SIGTERM, timeout_seconds=5)
