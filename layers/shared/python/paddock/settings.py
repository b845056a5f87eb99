"""What the template tells the functions, by environment variables."""

from __future__ import annotations

import os
from dataclasses import dataclass

# What `sam local` passes as TABLE_NAME when nobody tells it another: the table's name in template.yaml.
_PLACEHOLDER = "Table"


def require_deployed_names() -> None:
    """End the function before it starts where its names are the template's, which nothing is called."""
    if os.environ.get("TABLE_NAME") == _PLACEHOLDER:
        msg = (
            f"paddock: TABLE_NAME is {_PLACEHOLDER!r}, which no table is called; "
            "start sam local with --env-vars .local/sam-env.json, which `make local` writes"
        )
        raise SystemExit(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Names of the deployment's resources. A function that does not use one need not have it."""

    table_name: str
    state_machine_arn: str
    default_cluster: str
    credentials_secret_arn: str
    region: str
    work_queue_url: str = ""
    public_url: str = ""
    launch_burst: int = 1_000
    launch_rate: float = 2
    terminate_burst: int = 1_000
    terminate_rate: float = 20

    @classmethod
    def from_environment(cls) -> Settings:
        """Read them once, when the function starts."""
        return cls(
            table_name=os.environ.get("TABLE_NAME", ""),
            state_machine_arn=os.environ.get("STATE_MACHINE_ARN", ""),
            default_cluster=os.environ.get("DEFAULT_CLUSTER", ""),
            credentials_secret_arn=os.environ.get("CREDENTIALS_SECRET_ARN", ""),
            region=os.environ.get("AWS_REGION", "us-east-1"),
            work_queue_url=os.environ.get("WORK_QUEUE_URL", ""),
            public_url=os.environ.get("PUBLIC_URL", ""),
            launch_burst=int(os.environ.get("LAUNCH_BURST", "1000")),
            launch_rate=float(os.environ.get("LAUNCH_RATE", "2")),
            terminate_burst=int(os.environ.get("TERMINATE_BURST", "1000")),
            terminate_rate=float(os.environ.get("TERMINATE_RATE", "20")),
        )
