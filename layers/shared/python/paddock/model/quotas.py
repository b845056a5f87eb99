"""EC2's quotas on running instances: in vCPU, in one Region, by family, and apart for on-demand and spot.

Source: Service Quotas, service ``ec2``, "Running On-Demand … instances" and "All … Spot Instance Requests".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

# The letters that an instance type begins with: the codes of the on-demand and of the spot quota. HPC and
# High Memory instances have no quota for spot.
_STANDARD = ("L-1216C47A", "L-34B43A08")
_GRAPHICS = ("L-DB2E81BA", "L-3819A6DF")
_P = "L-417A185B"
_BY_LETTERS: dict[str, tuple[str, str | None]] = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), _STANDARD),
    **dict.fromkeys(("g", "gr", "vt"), _GRAPHICS),
    "dl": ("L-6E869C2A", "L-85EED4F7"),
    "f": ("L-74FC7D96", "L-88CF9481"),
    "hpc": ("L-F7808C92", None),
    "inf": ("L-1945791B", "L-B5D1601B"),
    "trn": ("L-2C3B7624", "L-6B0D517C"),
    "u": ("L-43DA4232", None),
    "x": ("L-7295265B", "L-E3A00192"),
}
# The P family has one quota on demand, and for spot one for some generations each.
_P_SPOT = {"2": "L-7212CCBC", "3": "L-7212CCBC", "4": "L-7212CCBC", "5": "L-C4BD4855"}

QUOTA_CODES = frozenset(
    {_P, *_P_SPOT.values(), *(code for pair in _BY_LETTERS.values() for code in pair if code)}
)
"""The quotas that limit nodes; the account's others do not concern Paddock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """What Service Quotas said last: ``cores`` is vCPU by quota code, asked for at ``asked_at`` (ns)."""

    revision: int = 0
    asked_at: int
    cores: dict[str, int] = field(default_factory=dict)


@lru_cache(maxsize=4_096)
def quota_code(instance_type: str, *, spot: bool) -> str | None:
    """The code of the quota that limits an EC2 instance type; ``None`` where none is known to."""
    found = re.match(r"([a-z]+)-?([0-9]*)", instance_type)
    if found is None:
        return None
    letters, generation = found.groups()
    if letters == "p":
        return _P_SPOT.get(generation) if spot else _P
    on_demand, for_spot = _BY_LETTERS.get(letters, (None, None))
    return for_spot if spot else on_demand
