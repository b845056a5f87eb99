"""What every document that a client sends has in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

# One cluster never holds more active nodes than this, whatever its definition says.
MAX_NODES = 10_000
MAX_COUNT = 1_000_000_000
# Larger numbers are not exact in JavaScript and jq 1.6.
MAX_REVISION = 2**53 - 1


class Document(BaseModel):
    """A strict JSON object: camelCase names, no unknown fields, no number from a string or a boolean.

    A known field that is null counts as left out, since some clients send each field that they know.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = {field.alias for field in cls.model_fields.values()}
        return {name: value for name, value in data.items() if value is not None or name not in known}


def _digits_as_int(value: Any) -> Any:
    """An ``ETag`` carries a revision as a string, and some clients send it back as one."""
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isdigit()
        and len(value) <= len(str(MAX_REVISION))
    ):
        return int(value)
    return value


_Digits = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,16}$")]
_RevisionNumber = Annotated[int, Field(ge=0, le=MAX_REVISION)]
Revision = Annotated[
    _RevisionNumber, BeforeValidator(_digits_as_int, json_schema_input_type=_RevisionNumber | _Digits)
]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
