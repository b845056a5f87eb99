"""A cluster's definition: what is filled in, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from paddock.model.definition import MAX_BUCKETS, bucket_id, is_cluster_name
from paddock.requests.bodies import ClusterWrite
from tests.fakes.world import bucket, nodearray

if TYPE_CHECKING:
    from paddock.model.definition import ClusterDefinition


def define(*nodearrays: dict[str, Any], **changes: Any) -> ClusterDefinition:
    return ClusterWrite.model_validate({"nodearrays": list(nodearrays), **changes}).definition()


def test_what_is_left_out_follows_from_the_machine_type_or_does_not_limit() -> None:
    definition = define(nodearray("a", {"machineType": "hpc6a-48xlarge"}))
    [(array, one)] = definition.buckets()
    assert (one.instance_type, one.template_id) == ("hpc6a.48xlarge", "hpc6a-48xlarge")
    assert (array.launch_template.version, array.interruptible, array.configuration) == (
        "$Default",
        False,
        {},
    )
    assert definition.idle_timeout_seconds == 0
    limits = [definition.max_count, definition.max_core_count, array.max_count, array.max_core_count]
    assert limits == [None] * 4
    assert (one.max_count, one.quota_core_count, one.cores) == (None, None, 1)
    assert not one.facts_are_known


def test_only_the_first_hyphen_of_a_machine_type_stands_for_the_dot() -> None:
    [(_, one)] = define(nodearray("a", {"machineType": "u-6tb1-56xlarge", "templateId": None})).buckets()
    assert one.instance_type == "u.6tb1-56xlarge"
    assert one.template_id == "u-6tb1-56xlarge"


def test_what_is_given_wins() -> None:
    given = bucket("big", instanceType="c7i.8xlarge", templateId="32c64g", vcpuCount=32)
    [(_, one)] = define(nodearray("a", given)).buckets()
    assert (one.instance_type, one.template_id, one.cores) == ("c7i.8xlarge", "32c64g", 32)
    assert one.facts_are_known


def test_node_types_are_told_once_each_in_the_order_of_the_definition() -> None:
    one = define(
        nodearray("a", bucket("x-1", templateId="b"), bucket("x-2", templateId="a")),
        nodearray("b", bucket("x-1", templateId="b"), bucket("x-3", templateId="c")),
    )
    assert one.node_types() == ["b", "a", "c"]


def test_a_cluster_without_node_arrays_is_legal() -> None:
    assert define().node_types() == []


@pytest.mark.proves("PUT /clusters/{cluster}: 400")
@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"name": "with blank"}, "name"),
        ({"name": "dot.ted"}, "name"),
        ({"name": "line\n"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"maxCount": -1}, "maxCount"),
        ({"maxCount": 1.0}, "maxCount"),
        ({"maxCount": "1"}, "maxCount"),
        ({"maxCount": True}, "maxCount"),
        ({"maxCount": 10**10}, "maxCount"),
        ({"maxCoreCount": 2.5}, "maxCoreCount"),
        ({"interruptible": 1}, "interruptible"),
        ({"interruptible": "true"}, "interruptible"),
        ({"subnetIds": []}, "subnetIds"),
        ({"subnetIds": "subnet-00000001"}, "subnetIds"),
        ({"subnetIds": ["vpc-00000001"]}, "subnetIds"),
        ({"launchTemplate": {}}, "launchTemplateId"),
        ({"launchTemplate": {"launchTemplateId": "lt-0123456789abcdef0", "version": "0"}}, "version"),
        ({"launchTemplate": {"launchTemplateId": "my-template"}}, "launchTemplateId"),
        ({"buckets": []}, "buckets"),
        ({"buckets": [{}]}, "machineType"),
        ({"buckets": [bucket("c7i.xlarge")]}, "machineType"),
        ({"buckets": [bucket(instanceType="c7i-xlarge")]}, "instanceType"),
        ({"buckets": [bucket("nodash")]}, "instanceType"),
        ({"buckets": [bucket(templateId="")]}, "templateId"),
        ({"buckets": [bucket(vcpuCount=0)]}, "vcpuCount"),
        ({"buckets": [bucket(memory=0)]}, "memory"),
        ({"buckets": [bucket(memory=float("inf"))]}, "memory"),
        ({"buckets": [bucket(memory="8")]}, "memory"),
        ({"buckets": [bucket(maxPlacementGroupSize=0)]}, "maxPlacementGroupSize"),
        ({"buckets": [bucket(pricePerHour=-1)]}, "pricePerHour"),
        ({"buckets": [bucket(), bucket()]}, "machineType must be unique"),
        ({"configuration": []}, "configuration"),
        ({"configuration": {"x": "y" * 16_384}}, "configuration must be at most"),
        ({"unheardOf": 1}, "unheardOf"),
    ],
    ids=str,
)
def test_what_breaks_a_rule_is_refused_and_named(change: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError, match=where):
        define(nodearray(**{"name": "a", **change}))


@pytest.mark.parametrize("missing", ["name", "subnetIds", "launchTemplate", "buckets"])
def test_what_is_required_must_be_there(missing: str) -> None:
    array = {key: value for key, value in nodearray().items() if key != missing}
    with pytest.raises(ValidationError, match=missing):
        define(array)


def test_node_arrays_have_different_names() -> None:
    with pytest.raises(ValidationError, match="must be unique"):
        define(nodearray("a"), nodearray("a"))


def test_there_is_a_most_for_buckets() -> None:
    half = [bucket(f"c{number}-x") for number in range(MAX_BUCKETS // 2)]
    assert len(list(define(nodearray("a", *half), nodearray("b", *half)).buckets())) == MAX_BUCKETS
    with pytest.raises(ValidationError, match="at most 200 buckets"):
        define(nodearray("a", *half), nodearray("b", *half), nodearray("c"))


def test_a_bucket_keeps_its_id_and_shares_it_with_none() -> None:
    places = [(c, a, m) for c in ("demo", "demo 2") for a in ("a", "b") for m in ("x-1", "x-2")]
    ids = [bucket_id(*place) for place in places]
    assert len(set(ids)) == len(places)
    assert ids == [bucket_id(*place) for place in places]


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("demo", True),
        ("my cluster 1.2_x-y", True),
        ("0", True),
        ("x" * 128, True),
        ("", False),
        (" demo", False),
        ("x" * 129, False),
        ("a#b", False),
        ("a/b", False),
        ("demo\n", False),
        ("naïve", False),
        ("٣", False),
    ],
)
def test_cluster_names_hold_what_urls_and_keys_can(name: str, *, legal: bool) -> None:
    assert is_cluster_name(name) is legal
