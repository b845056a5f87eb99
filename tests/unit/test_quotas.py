"""When the account's quotas are asked for, and what becomes of those that were known."""

from __future__ import annotations

import pytest

from paddock.model.time import SECOND_NS
from paddock.reconcile.quotas import QUOTAS_AGE_NS
from paddock.reconcile.run import Report
from tests.fakes.world import World

STANDARD = "L-1216C47A"
AGE_SECONDS = QUOTAS_AGE_NS / SECOND_NS


def known(world: World) -> dict[str, int] | None:
    record = world.repository.quotas()
    return record.cores if record else None


def test_the_schedule_asks_for_quotas_once_they_are_old() -> None:
    world = World()
    world.ec2.quotas({STANDARD: 64})
    assert known(world) is None
    world.reconcile()
    assert known(world) == {STANDARD: 64}
    world.ec2.quotas({STANDARD: 128})
    world.clock.advance(AGE_SECONDS - 10)
    world.reconcile()
    assert known(world) == {STANDARD: 64}
    assert world.ec2.calls["ListServiceQuotas"] == 1
    world.clock.advance(20)
    world.reconcile()
    assert known(world) == {STANDARD: 128}


@pytest.mark.parametrize("code", ["AccessDeniedException", "ServiceException"])
def test_quotas_that_are_not_told_leave_what_was_known_and_are_not_asked_for_each_minute(code: str) -> None:
    world = World()
    world.ec2.fail_next("ListServiceQuotas", code)
    world.reconcile()
    assert world.run.quotas_unread
    assert known(world) == {}
    world.ec2.quotas({STANDARD: 64})
    world.reconcile()
    assert not world.run.quotas_unread
    assert world.ec2.calls["ListServiceQuotas"] == 1
    world.clock.advance(AGE_SECONDS)
    world.reconcile()
    assert known(world) == {STANDARD: 64}
    world.clock.advance(AGE_SECONDS)
    world.ec2.fail_next("ListServiceQuotas", code)
    world.reconcile()
    assert known(world) == {STANDARD: 64}


def test_quotas_that_cannot_be_had_disturb_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    operation, _ = world.create(1)
    world.workflows.live.clear()
    world.clock.advance(120)

    def broken() -> None:
        raise ValueError("no such answer")

    monkeypatch.setattr(world.quotas, "cores", broken)
    assert world.reconcile() == Report(seen=1, resumed=1)
    assert world.run.quotas_unread
    assert world.operation(operation.id).attempt == 2


def test_of_two_runs_that_ask_at_once_one_writes_and_neither_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.ec2.quotas({STANDARD: 64})
    told = world.quotas.cores

    def slow() -> dict[str, int]:
        monkeypatch.setattr(world.quotas, "cores", told)
        world.reconcile()
        return {STANDARD: 1}

    monkeypatch.setattr(world.quotas, "cores", slow)
    assert world.reconcile() == Report()
    assert known(world) == {STANDARD: 64}


def test_a_request_never_asks_for_quotas() -> None:
    world = World()
    world.ready(2)
    world.terminate(names=["ondemand-1"])
    assert world.ec2.calls["ListServiceQuotas"] == 0
