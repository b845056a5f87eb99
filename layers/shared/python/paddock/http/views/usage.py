"""Usage, in the shape of CycleCloud's ClusterUsage."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from paddock.http.views.time import time_view
from paddock.model.usage import core_hours, cost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.clusters.usage import ClusterUsage
    from paddock.model.usage import Machine, NodeUse, Slot

_LEFT_OUT = (
    "usage by node is left out, the reply would be too large: ask for less time or coarser granularity"
)


def usage_view(usage: ClusterUsage, region: str) -> dict[str, Any]:
    """``ClusterUsage``, and a ``message`` where it holds no usage by node."""
    view: dict[str, Any] = {"usage": [_slot_view(slot, region) for slot in usage.slots]}
    return view if usage.has_nodes else {**view, "message": _LEFT_OUT}


def _slot_view(slot: Slot, region: str) -> dict[str, Any]:
    machines = sorted(slot.machines.items(), key=lambda machine_use: _order(machine_use[0]))
    arrays = groupby(machines, key=lambda machine_use: machine_use[0].node_array)
    return {
        "start": time_view(slot.start),
        "end": time_view(slot.end),
        "total": {"category": "cluster", **_amounts(slot.machines)},
        "breakdown": [
            *(_array_view(name, dict(used), region) for name, used in arrays),
            *(_node_view(node) for node in slot.nodes),
        ],
    }


def _array_view(name: str, machines: Mapping[Machine, int], region: str) -> dict[str, Any]:
    return {
        "category": "nodearray",
        "node": name,
        **_amounts(machines),
        "details": [
            {
                "vm_size": machine.machine_type,
                "core_count": machine.cores,
                "region": region,
                "priority": "Spot" if machine.interruptible else "Regular",
                **_amounts({machine: used}),
            }
            for machine, used in machines.items()
        ],
    }


def _node_view(node: NodeUse) -> dict[str, Any]:
    """A node of a node array; its use is in the node array's item too."""
    return {
        "category": "node",
        "node": node.name,
        "nodeId": node.id,
        "nodearray": node.machine.node_array,
        **_amounts({node.machine: node.used}),
    }


def _amounts(machines: Mapping[Machine, int]) -> dict[str, float]:
    """``hours`` are core-hours, as CycleCloud's are."""
    charge = cost(machines)
    return {"hours": core_hours(machines), **({} if charge is None else {"cost": charge})}


def _order(machine: Machine) -> tuple[str, str, int, bool, float]:
    price = -1.0 if machine.price_per_hour is None else machine.price_per_hour
    return machine.node_array, machine.machine_type, machine.cores, machine.interruptible, price
