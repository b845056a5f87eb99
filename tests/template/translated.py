"""What CloudFormation is given: template.yaml as SAM translates it, as if all code were uploaded."""

from __future__ import annotations

import json
import logging
from functools import cache
from typing import Any

import boto3
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

from tests.emulator.template import load_template

UPLOADED = ("CodeUri", "ContentUri", "DefinitionUri")


@cache
def translated(region: str = "us-east-1") -> dict[str, Any]:
    """Return the template as it is deployed in ``region``; SAM writes the Region's partition into ARNs."""
    # Aliases written out, as SAM CLI does before it sends the template.
    document = json.loads(json.dumps(load_template()))
    for resource in document["Resources"].values():
        for name in UPLOADED:
            if name in resource["Properties"]:
                resource["Properties"][name] = "s3://bucket/key"
    # It warns of switches that only AWS's own service has.
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    translator = Translator({}, Parser(), None, boto3.Session(region_name=region))
    template: dict[str, Any] = translator.translate(document, {})
    return template
