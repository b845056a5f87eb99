"""Reads template.yaml, with CloudFormation's short tags written out: ``!Ref X`` becomes ``{"Ref": "X"}``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "template.yaml"


class _Loader(yaml.SafeLoader):
    """A YAML loader that knows CloudFormation's tags."""


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = node.value
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _tagged)


def load_template() -> dict[str, Any]:
    """Return the template as plain dictionaries, lists and strings."""
    document = yaml.load(TEMPLATE.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506  # a SafeLoader
    if not isinstance(document, dict):
        message = f"{TEMPLATE} is not a mapping"
        raise TypeError(message)
    return document
