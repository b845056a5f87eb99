"""Every change of state that there may be, in the words of the table that the documentation has."""

from __future__ import annotations

from paddock.model import node_lifecycle, operation

NOTHING = "nothing"
TRANSITIONS = {
    (kind, str(before or NOTHING), str(after or NOTHING))
    for kind, table in (("node", node_lifecycle.TRANSITIONS), ("operation", operation.TRANSITIONS))
    for before, following in table.items()
    for after in following
}
