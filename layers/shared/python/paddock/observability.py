"""The logger of all functions. Loggers of the package's modules are its children, and share its keys."""

from __future__ import annotations

from aws_lambda_powertools import Logger

logger = Logger(service="paddock")
