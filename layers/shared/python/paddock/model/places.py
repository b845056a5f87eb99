"""Where a launch is asked for: the subnets of one call, and the order of calls.

One call never names two subnets of a zone, since EC2 refuses it whole. So a call takes one subnet of each
zone, and what it leaves is asked for in the zones' other subnets. In a zone that is not known any two subnets
may lie together: clusters written before zones were learned ask for one subnet after another.

Nodes in one placement group must be in one zone. They are asked for one subnet at a time: all of them or none
first, and only where no subnet takes all, as far as each goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from paddock.model.node import LaunchSpec


@dataclass(frozen=True, slots=True)
class Place:
    """The subnets of one launch call. ``together``: all of the nodes there, or none.

    The next ``singles`` places are its subnets, each in a call of its own.
    """

    subnet_ids: tuple[str, ...]
    together: bool = False
    singles: int = 0


def apart(subnet_ids: Iterable[str], zones: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """The subnets in as few calls as can be, none of which has two of a zone; each in the order given.

    Three subnets of the zones a, a and b are two calls: the first and the third, and then the second.
    """
    calls: list[dict[str, str]] = []
    for subnet_id in dict.fromkeys(subnet_ids):
        zone = zones.get(subnet_id, "")
        free = next((call for call in calls if zone not in call), None)
        if free is None:
            calls.append({zone: subnet_id})
        else:
            free[zone] = subnet_id
    return tuple(tuple(call.values()) for call in calls)


def places_of(spec: LaunchSpec, *, in_group: bool) -> list[Place]:
    """The calls to make for nodes of this specification, in their order, as long as some are left."""
    calls = spec.subnets or apart(spec.subnet_ids, {})
    if not in_group:
        places = []
        for call in calls:
            singles = [Place((subnet_id,)) for subnet_id in call] if len(call) > 1 else []
            places += [Place(call, singles=len(singles)), *singles]
        return places
    each = [Place((subnet_id,)) for call in calls for subnet_id in call]
    whole = [Place(place.subnet_ids, together=True) for place in each] if len(each) > 1 else []
    return [*whole, *each]


def next_place(
    spec: LaunchSpec, place: int, *, in_group: bool, count: int, refused_whole: bool
) -> int | None:
    """Which of ``places_of`` comes next for the nodes that this one did not take, of a call for ``count``.

    ``None`` where none is left. Subnets are asked one by one only where their call was ``refused_whole``, for
    one of them may have been enough for that. One node that was refused alone is not asked for there again.
    """
    places = places_of(spec, in_group=in_group)
    following = place + 1 + (0 if refused_whole else places[place].singles)
    if following >= len(places) or (count == 1 and places[place].together and not places[following].together):
        return None
    return following
