"""Values in messages to clients: in JSON, which they know, and never as Python writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def quoted(value: Any) -> str:
    """The value as JSON: ``"demo"``, ``{"4c8g": 2}``."""
    return json.dumps(value, ensure_ascii=False)


def listed(names: Iterable[object]) -> str:
    """Names as a sentence has them: ``GET, PUT``; ``none`` where there are none."""
    return ", ".join(str(name) for name in names) or "none"


def counted(count: int, singular: str, plural: str) -> str:
    """The count before the words for it: ``1 node was lost``, ``2 nodes were lost``."""
    return f"{count} {singular if count == 1 else plural}"
