"""Workflow task: end the instances of a termination's nodes."""

from __future__ import annotations

from paddock import bootstrap
from paddock.tasks import task

handler = task(bootstrap.terminate_step)
