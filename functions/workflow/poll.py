"""Workflow task: record what has become of an operation's instances."""

from __future__ import annotations

from paddock import bootstrap
from paddock.tasks import task

handler = task(bootstrap.poll_step)
