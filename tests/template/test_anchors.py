"""Anchors and merge keys, which CloudFormation does not take, are gone from what SAM CLI sends."""

from __future__ import annotations

import re
from typing import Any

import yaml
from samcli.yamlhelper import yaml_dump, yaml_parse

from tests.emulator.template import TEMPLATE, load_template

TEXT = TEMPLATE.read_text(encoding="utf-8")


def marks(text: str) -> set[str]:
    """Return the kinds of YAML events of ``text`` that stand for what was written elsewhere."""
    found = set()
    for event in yaml.parse(text):
        if isinstance(event, yaml.AliasEvent):
            found.add("alias")
        elif getattr(event, "anchor", None):
            found.add("anchor")
        elif isinstance(event, yaml.ScalarEvent) and event.value == "<<":
            found.add("merge")
    return found


def plain(value: Any) -> Any:
    """Return ``value`` with ordinary dictionaries and lists."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def test_what_sam_cli_sends_has_neither_anchors_nor_merge_keys() -> None:
    """By the reader and the writer with which `sam build` and `sam deploy` handle a template."""
    assert marks(TEXT) == {"alias", "anchor", "merge"}
    sent = yaml_dump(yaml_parse(TEXT))
    assert marks(sent) == set()
    assert plain(yaml_parse(sent)) == load_template()


def test_each_anchor_is_used() -> None:
    names = re.findall(r"&([a-z_]+)", TEXT)
    assert len(names) == len(set(names))
    assert {name for name in names if f"*{name}" in TEXT} == set(names)
