"""What the ``AccountQuotas`` port promises, of the fake and of the real adapter over the wire alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

from paddock.adapters.service_quotas import QUOTAS_PER_PAGE, ServiceQuotas
from paddock.ports.quotas import QuotasUnavailableError
from tests.emulator.ec2_server import Ec2Server, serving
from tests.fakes.clock import ManualClock
from tests.fakes.ec2 import ANSWER_LOST, FakeEc2
from tests.fakes.quotas import FakeQuotas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.ports.quotas import AccountQuotas

STANDARD, SPOT, P = "L-1216C47A", "L-34B43A08", "L-417A185B"
# EC2 has quotas on much beside instances; so many that they come in pages.
OTHERS = {f"L-{number:08X}": 5.0 for number in range(2 * QUOTAS_PER_PAGE)}


@dataclass(frozen=True)
class Account:
    """The port under test, and the account behind it."""

    quotas: AccountQuotas
    ec2: FakeEc2


@pytest.fixture(scope="module")
def server() -> Iterator[Ec2Server]:
    with serving(FakeEc2(ManualClock().seconds)) as server:
        yield server


@pytest.fixture(params=["fake", "wire"])
def account(request: pytest.FixtureRequest) -> Account:
    ec2 = FakeEc2(ManualClock().seconds)
    if request.param == "fake":
        return Account(FakeQuotas(ec2), ec2)
    server: Ec2Server = request.getfixturevalue("server")
    server.fake = ec2
    client = boto3.Session("testing", "testing", region_name="us-east-1").client(
        "service-quotas", endpoint_url=server.url, config=Config(retries={"total_max_attempts": 1})
    )
    return Account(ServiceQuotas(client), ec2)


def test_quotas_come_as_whole_vcpus_by_code_and_without_those_of_other_things(account: Account) -> None:
    account.ec2.quotas({**OTHERS, STANDARD: 1152.0, SPOT: 0.0})
    assert account.quotas.cores() == {STANDARD: 1152, SPOT: 0}
    assert all(type(cores) is int for cores in account.quotas.cores().values())


def test_a_quota_that_could_not_be_found_out_is_absent(account: Account) -> None:
    account.ec2.quotas({STANDARD: 5.0, P: None})
    assert account.quotas.cores() == {STANDARD: 5}


def test_an_account_of_which_nothing_is_told_has_no_quotas(account: Account) -> None:
    assert account.quotas.cores() == {}


@pytest.mark.parametrize("code", ["AccessDeniedException", "TooManyRequestsException", ANSWER_LOST])
@pytest.mark.parametrize("page", [1, 2])
def test_what_is_not_told_whole_is_not_told(
    account: Account, monkeypatch: pytest.MonkeyPatch, code: str, page: int
) -> None:
    account.ec2.quotas({**OTHERS, STANDARD: 5.0})
    call = account.ec2.call

    def failing(operation: str, asked: dict[str, object]) -> dict[str, object]:
        if ("NextToken" in asked) == (page > 1):
            account.ec2.fail_next(operation, code)
        return call(operation, asked)

    monkeypatch.setattr(account.ec2, "call", failing)
    with pytest.raises(QuotasUnavailableError):
        account.quotas.cores()
