"""Workflow task: end an operation."""

from __future__ import annotations

from paddock import bootstrap
from paddock.tasks import task

handler = task(bootstrap.finish_step)
