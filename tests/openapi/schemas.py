"""JSON Schemas of pydantic models, with the text below each field as its description."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from paddock.model.base import Document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_core import core_schema

REF = "#/components/schemas/{model}"


@cache
def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """What the source says below each field of the model and of those that it inherits from, in Markdown.

    A string below a field costs nothing where the model is imported, on a request path.
    """
    texts: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if not issubclass(kind, BaseModel) or kind is BaseModel:
            continue
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                texts[field.target.id] = markdown(below.value.value)
    return texts


def markdown(text: str) -> str:
    """A docstring as one paragraph of Markdown for each of its own."""
    return "\n\n".join(" ".join(part.split()) for part in text.replace("``", "`").split("\n\n"))


def schemas_of(models: Iterable[type[BaseModel]]) -> dict[str, Any]:
    """The schema of each model, and of all that they refer to, by name."""
    _, together = models_json_schema(
        [(model, "validation") for model in models], ref_template=REF, schema_generator=_Schemas
    )
    made: dict[str, Any] = dict(sorted(together.get("$defs", {}).items()))
    if "JsonValue" in made:
        made["JsonValue"] = {"description": "Any JSON value."}
    return made


def ref(model: type[BaseModel]) -> dict[str, str]:
    """Where a model's schema is."""
    return {"$ref": REF.format(model=model.__name__)}


class _Schemas(GenerateJsonSchema):
    """Pydantic's schemas as people read them, and as exact as what the models accept."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        made = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        made.pop("title", None)
        if "description" in made:
            made["description"] = markdown(made["description"])
        texts = field_texts(model)
        for name, field in model.model_fields.items():
            told = made["properties"][field.alias or name]
            if name in texts:
                told["description"] = texts[name]
            # A default that stands for a rule is told in words.
            if not told.get("default", True) and told["default"] not in (0, False):
                del told["default"]
            if issubclass(model, Document) and not field.is_required() and not _takes_null(told):
                made["properties"][field.alias or name] = _or_null(told)
        return made

    def enum_schema(self, schema: core_schema.EnumSchema) -> dict[str, Any]:
        made = super().enum_schema(schema)
        made.pop("title", None)
        if "description" in made:
            made["description"] = markdown(made["description"])
        return made

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        made = super().dict_schema(schema)
        if "patternProperties" in made:
            made["additionalProperties"] = False
        return made


def _takes_null(schema: dict[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", ())


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A known field that is null counts as left out (``Document``)."""
    about: dict[str, Any] = {name: schema.pop(name) for name in ("default", "description") if name in schema}
    return {"anyOf": [schema, {"type": "null"}], **about}
