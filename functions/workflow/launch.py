"""Workflow task: launch the next batch of a create's nodes."""

from __future__ import annotations

from paddock import bootstrap
from paddock.tasks import task

handler = task(bootstrap.launch_step)
