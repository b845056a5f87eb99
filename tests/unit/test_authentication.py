"""Basic credentials."""

from __future__ import annotations

import base64

import pytest

from paddock.users.authentication import Authenticator
from tests.fakes.clock import ManualClock


class Kept:
    """Credentials that can be rotated, and tell how often they were read."""

    def __init__(self, username: str = "admin", password: str = "s3cret: ü") -> None:  # noqa: S107
        self.pair = (username, password)
        self.reads = 0

    def read(self) -> tuple[str, str]:
        self.reads += 1
        return self.pair


def basic(text: str | bytes, scheme: str = "Basic") -> str:
    encoded = base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()
    return f"{scheme} {encoded}"


GOOD = basic("admin:s3cret: ü")


@pytest.mark.parametrize(
    "header",
    [GOOD, basic("admin:s3cret: ü", "basic"), basic("admin:s3cret: ü", "BASIC"), f"  {GOOD}  "],
)
def test_the_right_credentials_tell_the_user(header: str) -> None:
    assert Authenticator(Kept(), ManualClock()).user(header) == "admin"


@pytest.mark.parametrize(
    "header",
    [
        "",
        " ",
        "Basic",
        "Basic ",
        "Basic :",
        "Basic ****",
        "Basic é",
        GOOD.replace("Basic", "Bearer"),
        GOOD.removeprefix("Basic "),
        basic("admin"),
        basic(""),
        basic(":"),
        basic("admin:"),
        basic("admin:S3cret: ü"),
        basic("admin:s3cret: ü "),
        basic("Admin:s3cret: ü"),
        basic("admin:s3cret"),
        basic("admins3cret: ü"),
        basic("other:s3cret: ü"),
        basic(b"admin:\xff\xfe"),
        GOOD[:-1],
        GOOD + "=",
        GOOD + " x",
        basic("admin:" + "x" * 100_000),
    ],
)
def test_anything_else_tells_nobody(header: str) -> None:
    assert Authenticator(Kept(), ManualClock()).user(header) is None


def test_what_is_no_basic_header_reads_no_secret() -> None:
    kept = Kept()
    assert Authenticator(kept, ManualClock()).user("Bearer x") is None
    assert kept.reads == 0


def test_the_secret_is_read_once_for_many_requests() -> None:
    kept, clock = Kept(), ManualClock()
    authenticator = Authenticator(kept, clock)
    for _ in range(3):
        assert authenticator.user(GOOD)
        clock.advance(9)
    assert kept.reads == 1


def test_wrong_guesses_do_not_read_the_secret_each_time() -> None:
    kept = Kept()
    authenticator = Authenticator(kept, ManualClock())
    for _ in range(5):
        assert authenticator.user(basic("admin:guess")) is None
    assert kept.reads == 1


def test_a_new_password_is_known_within_seconds_and_the_old_one_forgotten_then() -> None:
    kept, clock = Kept(), ManualClock()
    authenticator = Authenticator(kept, clock)
    assert authenticator.user(GOOD)
    kept.pair = ("admin", "new")
    assert authenticator.user(basic("admin:new")) is None
    clock.advance(6)
    assert authenticator.user(basic("admin:new")) == "admin"
    assert authenticator.user(GOOD) is None


def test_to_check_credentials_costs_neither_a_processor_nor_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may have them checked, and a new account has ten functions at one time."""

    def slow(*_: object, **__: object) -> bytes:
        raise AssertionError("a slow hash")

    monkeypatch.setattr("hashlib.scrypt", slow)
    monkeypatch.setattr("hashlib.pbkdf2_hmac", slow)
    assert Authenticator(Kept(), ManualClock()).user(basic("admin:guess")) is None


def test_what_is_kept_in_memory_is_another_in_each_process() -> None:
    first, second = Authenticator(Kept(), ManualClock()), Authenticator(Kept(), ManualClock())
    assert first.user(GOOD) == second.user(GOOD) == "admin"
    assert first._digest != second._digest


def test_an_old_password_that_nobody_tries_beside_is_forgotten_within_half_a_minute() -> None:
    kept, clock = Kept(), ManualClock()
    authenticator = Authenticator(kept, clock)
    assert authenticator.user(GOOD)
    kept.pair = ("admin", "new")
    clock.advance(31)
    assert authenticator.user(GOOD) is None


def test_the_password_does_not_stay_in_memory() -> None:
    authenticator = Authenticator(Kept(), ManualClock())
    authenticator.user(GOOD)
    held = b"".join(value for value in vars(authenticator).values() if isinstance(value, bytes))
    assert held
    assert b"s3cret" not in held
    assert not any(isinstance(value, str) for value in vars(authenticator).values())
