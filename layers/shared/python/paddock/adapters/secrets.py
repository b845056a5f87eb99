"""Credentials from Secrets Manager."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient


class SecretCredentials:
    """``Credentials`` kept in one secret, ``{"username": …, "password": …}``."""

    def __init__(self, client: SecretsManagerClient, secret_id: str) -> None:
        self._client = client
        self._secret_id = secret_id

    def read(self) -> tuple[str, str]:
        """See ``Credentials.read``."""
        secret = json.loads(self._client.get_secret_value(SecretId=self._secret_id)["SecretString"])
        return secret["username"], secret["password"]
