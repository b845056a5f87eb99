"""A cluster: a name, and the definition that its owner last wrote."""

from __future__ import annotations

from dataclasses import dataclass

from paddock.model.definition import ClusterDefinition  # noqa: TC001 - read at run time to parse records


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster; ``revision`` changes with each write of the definition, and with nothing else.

    ``uid`` tells it from others of its name, before and after it.
    """

    name: str
    revision: int
    definition: ClusterDefinition
    uid: str = ""
