"""A cluster: a name, and the definition that its owner last wrote."""

from __future__ import annotations

from dataclasses import dataclass, field

from paddock.model.definition import ClusterDefinition  # noqa: TC001 - read at run time to parse records
from paddock.model.identity import ClusterName


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster; ``revision`` changes with each write of the definition, and with nothing else.

    ``uid`` distinguishes it from other clusters of its name, before and after it.
    ``zones`` has each subnet's availability zone, as the cloud reported when the definition was written.
    """

    name: ClusterName
    revision: int = 0
    definition: ClusterDefinition
    uid: str = ""
    zones: dict[str, str] = field(default_factory=dict)
