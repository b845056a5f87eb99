"""What Paddock asks of the cloud that runs instances.

Callers build on these promises, so every adapter and every fake keeps them:

* ``launch`` is idempotent by ``client_token``: the same request again returns the same instances and
  launches nothing, also if the result was a shortage: to ask for the rest takes a new token. The same
  token with other parameters is refused with ``LaunchRefused``.
* ``describe`` may lag behind ``launch`` by minutes: an instance that is absent from the result is *not seen
  yet*, which is not the same as gone. An error is raised, never turned into an empty result.
* ``terminate``, ``stop`` and ``start`` are idempotent; they and ``restart`` report per instance, and no
  instance that is refused, or not known any more, ever holds back the others. An instance that the cloud
  passes over in silence is reported as refused.
* Any method may raise ``ComputeThrottled`` (nothing was done; ask again later) or ``ComputeUnavailable``
  (the outcome is unknown; ask again with the same token).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from paddock.model.identity import ClusterName, InstanceId, NodeId, OperationId
    from paddock.model.instance import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """``count`` equal instances, asked for in one call.

    ``client_token`` has at most 64 ASCII characters. ``subnet_ids`` are alternatives, tried in order.
    No two of them may lie in one zone: a cloud refuses the whole launch otherwise. ``placement_group`` is a
    cluster placement group's name in the deployment, or empty; it is made if absent. ``together``: all of
    the instances in one zone, or none.
    """

    client_token: str
    cluster: ClusterName
    operation_id: OperationId
    count: int
    instance_type: str
    launch_template_id: str
    launch_template_version: str
    subnet_ids: tuple[str, ...]
    interruptible: bool = False
    placement_group: str = ""
    together: bool = False


class RefusalKind(StrEnum):
    """What a refusal means for the caller.

    ``CAPACITY``: not this machine here and now, but another may do; also if the cloud gave an unknown reason.
    ``THROTTLED``: the same may do a little later, under a new token. ``FAULT``: the request is at fault, and
    would be refused everywhere; asking again in any way is of no use.
    """

    CAPACITY = "capacity"
    THROTTLED = "throttled"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why fewer instances than asked for were launched: the kind, the cloud's code and its text."""

    kind: RefusalKind
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """Ids of the launched instances, sorted, so that a repeated call pairs them with the same nodes.

    ``refusals`` are empty if nothing is missing. Not ``is_told``: the cloud did not report what it launched,
    as may happen when a call is repeated. These are then the instances that it shows by now, and more may
    come into sight. ``refused_whole``: one of several subnets may have been reason enough.
    """

    instance_ids: tuple[InstanceId, ...]
    refusals: tuple[Refusal, ...] = ()
    is_told: bool = True
    refused_whole: bool = False

    @property
    def refusal_kind(self) -> RefusalKind:
        """What to make of the instances that are missing, where the refusals are of several kinds.

        As long as one place was merely throttled it may still have what the others lack; and a fault in one
        place is none of those that lack capacity. No reason at all says nothing against another place.
        """
        kinds = {refusal.kind for refusal in self.refusals}
        if RefusalKind.THROTTLED in kinds:
            return RefusalKind.THROTTLED
        return RefusalKind.FAULT if kinds == {RefusalKind.FAULT} else RefusalKind.CAPACITY


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What an instance type is. ``memory_gib`` in GiB; ``infiniband`` says whether it supports EFA."""

    vcpu_count: int
    pcpu_count: int
    memory_gib: float
    gpu_count: int
    infiniband: bool


class Compute(Protocol):
    """Launches, observes and ends instances. See the module's docstring for what holds for all methods."""

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Launch up to ``request.count`` instances, tagged with cluster and operation.

        A shortage is an answer (fewer ids, and ``refusals``), not an error. Raises ``LaunchRefused`` when the
        request itself cannot be served (unknown launch template, mismatched token, no permission).
        """

    def describe(self, instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, Instance]:
        """The instances among ``instance_ids`` that the cloud shows now, by id; any number of ids."""

    def launched_by(self, cluster: ClusterName, operation_id: OperationId) -> Sequence[Instance]:
        """Every instance that this deployment launched for the operation, ended ones that show included."""

    def launched_in(self, cluster: ClusterName) -> Sequence[Instance]:
        """Every instance that this deployment launched in a cluster, terminated ones that still show too.

        An instance whose tags were changed by hand is not among them: only ``describe`` shows it.
        """

    def clusters(self) -> Collection[ClusterName]:
        """The clusters in which this deployment has instances that have not ended."""

    def terminate(self, instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, str]:
        """End instances; any number of ids. Returns the refused ids, each with a reason.

        An id that the cloud does not know is not a refusal: ``describe`` shows in time whether it is gone.
        """

    def stop(self, instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, str]:
        """Stop instances, which keeps their disks; otherwise as ``terminate``."""

    def start(self, instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, str]:
        """Start stopped instances; those that run already go on. Otherwise as ``terminate``."""

    def restart(self, instance_ids: Collection[InstanceId]) -> Mapping[InstanceId, str]:
        """Reboot running instances; done twice, they reboot twice.

        Returns the ids that are not rebooted, each with a reason; an id that the cloud does not know is one.
        """

    def tag(self, instance_id: InstanceId, node_id: NodeId, name: str) -> str:
        """Let an instance bear its node's id, and its node's name as its own; done twice, it is as done once.

        Returns the reason if it is refused, and an empty text if it is done.
        """

    def delete_placement_group(self, name: str) -> bool:
        """Delete a placement group; returns whether it is gone now, as a group that was never there is.

        A group with instances in it is left as it is, and so is a group that is not ours to delete: it was
        there before, or has lost its tag. To delete a group twice is harmless.
        """

    def subnet_zones(self, subnet_ids: Collection[str]) -> Mapping[str, str]:
        """The zones of those among ``subnet_ids`` that the cloud knows here, shared ones too, by subnet."""

    def machine_facts(self, instance_types: Collection[str]) -> Mapping[str, MachineFacts]:
        """The facts of those among ``instance_types`` that the cloud offers, by instance type."""
