"""The configuration of nodes: free-form objects that are merged, from the general to the particular."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Autoscalers take a host name such as ``ip-10-0-1-116`` for that of a node that is not up yet, unless its
# configuration says that hosts have the names that the cloud gave them.
DEFAULT_CONFIGURATION: Mapping[str, Any] = {
    "cyclecloud": {"hosts": {"standalone_dns": {"enabled": False}}},
}


def merged(general: Mapping[str, Any], particular: Mapping[str, Any]) -> dict[str, Any]:
    """Both configurations in one, object by object; ``particular`` wins, except where it has null."""
    together = {**general, **{name: value for name, value in particular.items() if name not in general}}
    for name in general.keys() & particular.keys():
        below, above = general[name], particular[name]
        if isinstance(below, dict) and isinstance(above, dict):
            together[name] = merged(below, above)
        elif above is not None:
            together[name] = above
    return together


def with_defaults(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as clients read it."""
    return merged(DEFAULT_CONFIGURATION, configuration)
