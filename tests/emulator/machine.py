"""Ask `GET /self` as an instance does: signed by a role, in a session that is named after the instance.

EC2 gives such credentials to each instance by its metadata service. Here the emulator's STS gives them, for a
role that may do nothing but this; the emulator checks the signature and the role's policy as AWS does.

``python -m tests.emulator.machine i-0123456789abcdef0``
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from contextlib import suppress
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError

from tests.emulator.client import Reply
from tests.emulator.processes import StackError
from tests.emulator.running import find
from tests.emulator.stack import ACCOUNT, REGION, STACK_NAME, STAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLE = "paddock-local-instance"
TRUST = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}


def ask_as(endpoint: str, instance_id: str, *, may_ask: bool = True, account: str = ACCOUNT) -> Reply:
    """What the instance is answered; ``may_ask`` says whether its role's policy allows the call."""
    role = ROLE if may_ask else f"{ROLE}-without-policy"
    iam, sts = _aws(endpoint, "iam"), _aws(endpoint, "sts")
    with suppress(ClientError):
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=_policy(TRUST))
    if may_ask:
        resource = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:*/{STAGE}/GET/self"
        statement = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": resource}
        iam.put_role_policy(RoleName=role, PolicyName="self", PolicyDocument=_policy(statement))
    given = sts.assume_role(RoleArn=f"arn:aws:iam::{account}:role/{role}", RoleSessionName=instance_id)
    keys = given["Credentials"]
    url = f"{endpoint}/_aws/execute-api/{STACK_NAME}/{STAGE}/self"
    request = AWSRequest("GET", url, headers={"Accept": "*/*"})
    credentials = Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    SigV4Auth(credentials, "execute-api", REGION).add_auth(request)
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request("GET", urlsplit(url).path, headers=dict(request.headers.items()))
        response = connection.getresponse()
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def _aws(endpoint: str, service: str) -> Any:
    create: Any = boto3.client
    return create(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        config=Config(retries={"total_max_attempts": 1}),
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106  # the emulator takes any
    )


def _policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def check(instance_id: str) -> None:
    """Refuse what is no instance id, such as a node's name."""
    if not re.fullmatch(r"i-[0-9a-f]{8,17}", instance_id):
        raise StackError(f"name the instance, such as i-0123456789abcdef0, not {instance_id!r}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the answer. Return the exit status."""
    parser = argparse.ArgumentParser(description="Ask GET /self of `make local` as an instance does.")
    parser.add_argument("instance_id", help="an InstanceId of the list of nodes")
    instance_id: str = parser.parse_args(arguments).instance_id
    try:
        check(instance_id)
        reply = ask_as(find().aws, instance_id)
    except StackError as problem:
        print(f"paddock: {problem}", file=sys.stderr)
        return 1
    except (BotoCoreError, OSError):
        print("paddock: `make local` does not answer", file=sys.stderr)
        return 1
    print(reply.body.decode())
    return 0 if reply.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
