"""What a client is answered: compressed where it says so, and never more than Lambda lets through."""

from __future__ import annotations

import base64
import gzip
import json
from hashlib import shake_128
from typing import Any

import pytest

from paddock.http import reply as replies
from paddock.http.reply import MAX_ANSWER_BYTES, Listing, Reply
from paddock.http.request import Request

LISTED = Listing("things", key="id")
ENVELOPED = Listing("things", key="id", within="data")


def read(answer: dict[str, Any]) -> Any:
    """The body as the client gets it."""
    body = answer["body"]
    if answer["isBase64Encoded"]:
        assert answer["headers"]["Content-Encoding"] == "gzip"
        return json.loads(gzip.decompress(base64.b64decode(body)))
    assert "Content-Encoding" not in answer["headers"]
    return json.loads(body)


def things(count: int, size: int = 100, *, noise: bool = False) -> list[dict[str, Any]]:
    def text(number: int) -> str:
        return shake_128(str(number).encode()).hexdigest(size // 2) if noise else 'x"' * (size // 2)

    return [{"id": f"t-{number:06}", "text": text(number)} for number in range(count)]


@pytest.mark.parametrize(
    ("encoding", "accepted"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZip", True),
        ("x-gzip", True),
        ("gzip, deflate, br", True),
        ("br;q=1.0 , gzip ; q=0.5", True),
        ("gzip;Q=0.001", True),
        ("*", True),
        ("*;q=0.1, identity;q=0", True),
        ("deflate", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("*;q=0, gzip", True),
        ("gzip;q=nan", False),
        ("gzip;q=-1", False),
        ("gzip;q=2", False),
        ("gzip;q=", False),
        ("gzipped", False),
        (";;,,;q=1", False),
    ],
)
def test_gzip_is_for_those_who_say_that_they_read_it(encoding: str | None, *, accepted: bool) -> None:
    headers = {"accept": "*/*", **({} if encoding is None else {"accept-Encoding": encoding})}
    assert Request({"headers": headers}).accepts_gzip() is accepted


def test_gzip_is_not_for_those_whose_answers_the_gateway_would_not_decode() -> None:
    for headers in ({"Accept-Encoding": "gzip"}, {"Accept": "", "Accept-Encoding": "gzip"}, None):
        assert not Request({"headers": headers}).accepts_gzip()


def test_what_is_long_is_compressed_and_what_is_short_is_not() -> None:
    for count, compressed in ((1, False), (20, True)):
        body = {"things": things(count)}
        for listing in (None, LISTED):
            answer = Reply(200, body, {"X": "y"}, listing).to_gateway(compress=True)
            assert answer["isBase64Encoded"] is compressed
            assert read(answer) == body
            assert answer["headers"]["Vary"] == "Accept-Encoding"
            assert answer["headers"]["X"] == "y"
            assert answer["headers"]["Content-Type"] == "application/json"
            assert read(Reply(200, body).to_gateway()) == body
    assert len(answer["body"]) < len(json.dumps(body)) / 3


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(("size", "noise"), [(100, False), (100, True), (5_000, True), (40_000, False)])
@pytest.mark.parametrize("listing", [LISTED, ENVELOPED])
def test_a_list_that_is_too_long_is_told_in_pages_of_which_each_fits(
    monkeypatch: pytest.MonkeyPatch, listing: Listing, size: int, *, compress: bool, noise: bool
) -> None:
    monkeypatch.setattr(replies, "MAX_ANSWER_BYTES", 50_000)
    monkeypatch.setattr(replies, "MAX_COMPRESSED_LIST_BYTES", 400_000)
    every = things(3_000 if size < 5_000 else 60, size, noise=noise)
    told: list[dict[str, Any]] = []
    pages = 0
    while True:
        inner = {"things": every[len(told) :], "other": 1}
        body = {"data": inner, "result": True} if listing.within else inner
        answer = Reply(200, body, listing=listing).to_gateway(compress=compress)
        is_one = len(listing.entries(read(answer))) == 1
        assert len(json.dumps(answer)) <= 50_000 or (is_one and size == 40_000)
        seen = read(answer)
        assert {key: seen[key] for key in seen.keys() - {"data", "things", "nextToken"}} == {
            key: body[key] for key in body.keys() - {"data", "things"}
        }
        told += listing.entries(seen)
        pages += 1
        token = (seen["data"] if listing.within else seen).get("nextToken")
        if token is None:
            break
        assert token == told[-1]["id"]
    assert told == every
    assert pages > 1
    # Not many more than must be: a page is mostly full.
    if size <= 5_000 and noise:
        assert pages <= 2 + len(json.dumps(every)) * (0.8 if compress else 1.2) / 50_000 / 0.8


def test_a_token_that_is_there_already_is_replaced_only_where_the_list_is_cut() -> None:
    body = {"things": things(2), "nextToken": "later"}
    assert read(Reply(200, body, listing=LISTED).to_gateway()) == body
    assert LISTED.cut(body, 1) == {"things": body["things"][:1], "nextToken": "t-000000"}


def test_an_empty_list_is_told_as_it_is() -> None:
    for compress in (False, True):
        assert read(Reply(200, {"things": []}, listing=LISTED).to_gateway(compress=compress)) == {
            "things": []
        }


def test_the_bound_leaves_room_below_lambdas_own() -> None:
    assert MAX_ANSWER_BYTES <= 6_000_000 - 400_000
