"""What `sam local` is told of a running stack, by ``--env-vars``: names and addresses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.emulator.reset import LOCAL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.emulator.stack import Stack

SAM_ENV = LOCAL / "sam-env.json"
# What containers call the computer that they run on; on Linux they are told so by --add-host.
HOST_NAME = "host.docker.internal"
# Each variable of template.yaml whose value `sam local` cannot know.
SAM_VARIABLES = (
    "TABLE_NAME",
    "STATE_MACHINE_ARN",
    "DEFAULT_CLUSTER",
    "CREDENTIALS_SECRET_ARN",
    "WORK_QUEUE_URL",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_EC2",
    "AWS_ENDPOINT_URL_SERVICE_QUOTAS",
)


def write_sam_env(stack: Stack, default_cluster: str, path: Path = SAM_ENV) -> None:
    """Write the file for ``--env-vars``. SAM passes each function the variables that it declares."""
    queue = stack.aws("sqs").get_queue_url(QueueName=stack.resource("ReconcileWorkQueue").rpartition("/")[2])
    values = (
        stack.output("TableName"),
        stack.output("StateMachineArn"),
        default_cluster,
        stack.output("CredentialsSecretArn"),
        from_containers(queue["QueueUrl"]),
        from_containers(stack.endpoint),
        from_containers(stack.ec2_endpoint),
        from_containers(stack.ec2_endpoint),
    )
    content = {"Parameters": dict(zip(SAM_VARIABLES, values, strict=True))}
    path.write_text(json.dumps(content, indent=2) + "\n")


def from_containers(url: str) -> str:
    """Return the address under which a container reaches what this computer calls ``url``."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{HOST_NAME}:{parts.port}").geturl()
