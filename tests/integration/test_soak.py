"""A minute of bad weather: clients get truthful answers, and when it is over nothing is lost or left over.

Of all calls to AWS some 5% fail: at random, and now and then all of one service's for longer than botocore
tries again. ``SOAK_SECONDS`` says for how long.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from paddock.model.identity import ClusterName, RequestId
from tests.emulator.processes import free_port
from tests.emulator.reset import LOCAL
from tests.emulator.stack import Settings, started
from tests.fakes import invariants
from tests.integration.aftermath import broken, photograph, settle
from tests.integration.story import bucket, create, new_cluster
from tests.integration.weather import ERRORS, SEED, Weather, error, lost, unheard, weather

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.model.identity import OperationId
    from tests.emulator.client import Client, Reply
    from tests.emulator.stack import Stack

SOAK_SECONDS = int(os.environ.get("SOAK_SECONDS", "60"))
CLIENTS = 8
AT_ONCE = 3
MAX_NODES = 40
SQUALL_SECONDS = 2.0
BETWEEN_SQUALLS_SECONDS = 10.0
DRIZZLE = 0.04  # of all calls; the squalls make it 5%, and more where a lot is going on
BETWEEN_RUNS_SECONDS = 10.0
# As many calls as two processors can answer; more of them would only wait.
THINKING_SECONDS = 0.5
ATTEMPTS = 20
CUT_OFF = (502, 504)
RETRIABLE = {
    *("Busy", "StoreThrottled", "StoreUnavailable", "WorkflowsUnavailable", "ComputeThrottled"),
    *("ComputeUnavailable", "CredentialsUnavailable"),
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of its own: in the end, all that there is must be right."""
    settings = Settings(
        port=free_port(),
        ec2_port=free_port(),
        directory=tmp_path_factory.mktemp("soak"),
        build_directory=LOCAL / "build-tests",
        persist=False,
        wait_scale=0.2,
        simulator={"boot_seconds": 0.2, "terminate_seconds": 0.2, "describe_lag_seconds": 0.1},
        parameters={"Reconciliation": "DISABLED"},
    )
    with started(settings) as running:
        running.deploy()
        hold_back(running)
        yield running


def hold_back(stack: Stack) -> None:
    """Let no more functions run at once than a computer can: each that is new takes it seconds to start."""
    functions, arns = stack.aws("lambda"), stack._function_arns()
    for task in ("Launch", "Poll", "Terminate", "Finish"):
        functions.put_function_concurrency(FunctionName=arns[task], ReservedConcurrentExecutions=AT_ONCE)
    for source in functions.list_event_source_mappings(FunctionName=arns["ReconcileWorkItem"])[
        "EventSourceMappings"
    ]:
        functions.update_event_source_mapping(
            UUID=source["UUID"], ScalingConfig={"MaximumConcurrency": AT_ONCE}
        )


@pytest.fixture(scope="module")
def client(stack: Stack) -> Client:
    return stack.client


@pytest.fixture(scope="module")
def sky(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weather]:
    with weather(stack, tmp_path_factory.mktemp("microburst")) as made:
        yield made


def drizzle() -> list[dict[str, Any]]:
    """Rules by which some calls fail at random, in every way there is."""
    rules = [
        lost(service="*", probability=DRIZZLE / 4),
        unheard(service="*", probability=DRIZZLE / 4),
    ]
    return rules + [
        error(service, code, probability=DRIZZLE / 2 / len(codes))
        for service, codes in ERRORS.items()
        for code in codes
    ]


def squall(choose: Random) -> dict[str, Any]:
    """A rule by which one service fails whole for a while."""
    service = choose.choice(["dynamodb", "dynamodb", "ec2", "secretsmanager", "sqs", "stepfunctions"])
    fault = choose.choice(
        [
            error(service, choose.choice(ERRORS[service])),
            lost(service=service),
            unheard(service=service),
        ]
    )
    return {**fault, "ttl_s": SQUALL_SECONDS}


class Caller:
    """A client that knows what it may be answered, and writes down whatever else it is."""

    def __init__(self, client: Client, cluster: str, number: int) -> None:
        self._client = client
        self._cluster = cluster
        self._choose = Random(SEED + number)  # noqa: S311 - the same choices in each run
        self._number = number
        self._held: dict[str, int] = {}
        self.wrong: list[str] = []
        self.replies: Counter[tuple[str, int]] = Counter()
        self.creates: dict[str, tuple[OperationId, int]] = {}

    def act(self) -> None:
        """Do one thing."""
        choices = [self._create, self._terminate, self._claim, self._change, self._release, self._read]
        self._choose.choice([*choices, self._err])()

    def _create(self) -> None:
        request_id = str(uuid4())
        count = self._choose.randint(1, 3)
        doubts = self._doubts("create")
        reply = self._until_heard(
            "create", lambda: create(self._client, self._cluster, count, requestId=request_id)
        )
        if reply is None:
            return
        if reply.status == 409:
            # An earlier attempt was done, though its client was told that it might not be.
            was_done = self._doubts("create") > doubts and reply.json()["Detail"] == "DuplicateRequest"
            if not self._hold("create", reply, was_done):
                return
        elif not self._expect("create", reply, 202):
            return
        added = sum(one["added"] for one in reply.json().get("sets", ()))
        self.creates[request_id] = (reply.json()["operationId"], added)

    def _terminate(self) -> None:
        listed = self._until_heard("nodes", lambda: self._client.get(f"/clusters/{self._cluster}/nodes"))
        if listed is None or not self._expect("nodes", listed, 200):
            return
        ids = [node["NodeId"] for node in listed.json()["nodes"]]
        doubts = self._doubts("terminate")
        body = {
            "ids": self._choose.sample(ids, min(len(ids), self._choose.randint(1, 4))),
            "requestId": str(uuid4()),
            "force": self._choose.random() < 0.3,
        }
        path = f"/clusters/{self._cluster}/nodes/terminate"
        reply = self._until_heard("terminate", lambda: self._client.post(path, body))
        if reply is not None and self._expect("terminate", reply, 202, 409) and reply.status == 409:
            was_done = self._doubts("terminate") > doubts and reply.json()["Detail"] == "DuplicateRequest"
            self._hold("terminate", reply, was_done)

    def _claim(self) -> None:
        name = f"team-{self._number}-{uuid4().hex}"
        self._write(name, {"provision": self._choose.random() < 0.5})

    def _change(self) -> None:
        if self._held:
            name = self._choose.choice(sorted(self._held))
            self._write(name, {"revision": self._held[name], "provision": self._choose.random() < 0.5})

    def _write(self, name: str, more: dict[str, Any]) -> None:
        desired = {"4c8g": self._choose.randint(0, 4)}
        body = {"virtualClusterId": name, "cluster": self._cluster, "replicaSets": desired, **more}
        reply = self._until_heard("write", lambda: self._client.post("/virtual_clusters", body))
        if reply is None or not self._expect("write", reply, 200, 202, 409):
            return
        data = reply.json()["data"]
        if reply.status != 409:
            self._held[name] = data["revision"]
            self._hold("write", reply, len(data["nodeInstances"]) <= desired["4c8g"])
        elif data["code"] == "RevisionConflict":
            self._hold("write", reply, data["revision"] != more.get("revision", 0))
            if data["revision"]:
                self._held[name] = data["revision"]
        else:
            self._hold("write", reply, data["code"] == "InsufficientNodes")

    def _release(self) -> None:
        if not self._held:
            return
        name = self._choose.choice(sorted(self._held))
        query = "?terminate=true" if self._choose.random() < 0.3 else ""
        doubts = self._doubts("release")
        reply = self._until_heard("release", lambda: self._client.delete(f"/virtual_clusters/{name}{query}"))
        # Told that it might not have been done, it may have been.
        was_done = (404,) if self._doubts("release") > doubts else ()
        if reply is not None and self._expect("release", reply, 200, *was_done):
            del self._held[name]

    def _read(self) -> None:
        paths = [f"/clusters/{self._cluster}/nodes?maxResults=3", "/virtual_clusters"]
        path = self._choose.choice(paths)
        reply = self._until_heard("read", lambda: self._client.get(path))
        if reply is not None:
            self._expect("read", reply, 200)

    def _err(self) -> None:
        """Send what is wrong; how AWS feels is no excuse to call it the server's fault."""
        cluster, stranger = f"/clusters/{self._cluster}", self._client.with_credentials(("admin", "guess"))
        nowhere = {"sets": [{"count": 1, "nodearray": "nowhere"}]}
        vague = {"virtualClusterId": "x", "cluster": self._cluster}
        status, send = self._choose.choice(
            [
                (400, lambda: self._client.post(f"{cluster}/nodes/create", "count=1")),
                (409, lambda: self._client.post(f"{cluster}/nodes/create", nowhere)),
                (409, lambda: self._client.post(f"{cluster}/nodes/terminate", {})),
                (404, lambda: self._client.get("/clusters/nowhere/nodes")),
                (404, lambda: self._client.get(f"{cluster}/nodes?request_id=none")),
                (400, lambda: self._client.post("/virtual_clusters", {**vague, "replicaSets": {"4c8g": -1}})),
                (400, lambda: self._client.post("/virtual_clusters", {**vague, "replicaSets": {"none": 1}})),
                (409, lambda: self._client.post("/virtual_clusters", {**vague, "revision": 7})),
                (404, lambda: self._client.delete("/virtual_clusters/none")),
                (401, lambda: stranger.get("/virtual_clusters")),
            ]
        )
        reply = self._until_heard("wrong", send)
        if reply is not None:
            self._expect("wrong", reply, status)

    def _until_heard(self, what: str, send: Callable[[], Reply]) -> Reply | None:
        """Send it, and as long as the answer is to come back later, again. Nothing, if it never stops.

        A function that this computer is too slow for is cut off, which the gateway tells.
        """
        for _ in range(ATTEMPTS):
            try:
                reply = send()
            except TimeoutError:
                self.replies[what, 0] += 1
                continue
            self.replies[what, reply.status] += 1
            if reply.status == 503:
                body = reply.json()
                code = body.get("Detail") or body["data"]["code"]
                self._hold(what, reply, code in RETRIABLE and int(reply.headers.get("retry-after", 0)) > 0)
            elif reply.status not in CUT_OFF:
                return reply
        self.wrong.append(f"{what}: told to come back {ATTEMPTS} times")
        return None

    def _doubts(self, what: str) -> int:
        """How many answers there were that leave open whether it was done."""
        return sum(self.replies[what, status] for status in (0, 503, *CUT_OFF))

    def _expect(self, what: str, reply: Reply, *statuses: int) -> bool:
        return self._hold(what, reply, reply.status in statuses)

    def _hold(self, what: str, reply: Reply, is_right: bool) -> bool:
        if not is_right:
            self.wrong.append(f"{what}: {reply.status} {reply.body.decode(errors='replace')[:300]}")
        return is_right


# A call that fails more often than botocore tries it: whoever makes it fails, and has to be made up for.
CRASHES = {
    "a commit, done": lost(service="dynamodb", operation="TransactWriteItems"),
    "a read": unheard(service="dynamodb", operation="Query"),
    "a launch, done": lost(service="ec2", operation="CreateFleet"),
    "a look": unheard(service="ec2", operation="DescribeInstances"),
    "an end, done": lost(service="ec2", operation="TerminateInstances"),
    "a start": unheard(service="stepfunctions", operation="StartExecution"),
}


@pytest.mark.proves("the answer lost, the effect done: found by its token or tag")
@pytest.mark.parametrize("rule", CRASHES.values(), ids=CRASHES)
def test_a_call_that_fails_again_and_again_is_made_up_for(
    stack: Stack, client: Client, sky: Weather, rule: dict[str, Any]
) -> None:
    cluster = new_cluster(client)

    def heard(send: Callable[[], Reply]) -> Reply:
        sky.set({**rule, "times": 4})
        while (reply := send()).status == 503:
            pass
        settle(stack)
        return reply

    try:
        made = heard(lambda: create(client, cluster, 2, requestId="up")).json()
        assert photograph(stack).operation(made["operationId"]).succeeded == 2
        body = {"filter": 'RequestId === "up"', "requestId": "down"}
        ended = heard(lambda: client.post(f"/clusters/{cluster}/nodes/terminate", body)).json()
        assert photograph(stack).operation(ended["operationId"]).succeeded == 2
    finally:
        sky.set()
    left = photograph(stack)
    assert left.repository.nodes(ClusterName(cluster)) == []
    assert invariants.launched(left)[made["operationId"]] == 2
    assert invariants.at_rest(left) == []


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS + 240)
def test_after_bad_weather_all_is_right_and_nobody_was_told_a_lie(
    stack: Stack, client: Client, sky: Weather
) -> None:
    cluster = new_cluster(client, bucket(maxCount=MAX_NODES, pricePerHour=0.17))
    callers = [Caller(client, cluster, number) for number in range(CLIENTS)]
    until = time.monotonic() + SOAK_SECONDS

    def work(caller: Caller) -> None:
        while time.monotonic() < until:
            caller.act()
            time.sleep(THINKING_SECONDS)

    def storm() -> None:
        choose = Random(SEED)  # noqa: S311 - the same choices in each run
        while (left := until - time.monotonic()) > 0:
            sky.set(squall(choose), *drizzle())
            time.sleep(min(left, BETWEEN_SQUALLS_SECONDS))

    def reconcile() -> None:
        queue = stack.aws("lambda")
        while time.monotonic() < until:
            queue.invoke(FunctionName=stack._function_arns()["Reconcile"], Payload=b"{}")
            time.sleep(BETWEEN_RUNS_SECONDS)

    with ThreadPoolExecutor(CLIENTS + 2) as threads:
        running = [threads.submit(work, caller) for caller in callers]
        running += [threads.submit(storm), threads.submit(reconcile)]
        for one in running:
            one.result()
    sky.set()
    total, faulted = sky.calls()
    replies: Counter[tuple[str, int]] = sum((caller.replies for caller in callers), Counter())
    print(f"{total} calls to AWS, {faulted} faults; replies: {sorted(replies.items())}")  # noqa: T201
    print(sorted(sky.fired().items()))  # noqa: T201
    done = settle(stack)
    print(done)  # noqa: T201
    assert [line for caller in callers for line in caller.wrong] == []
    assert broken(stack) == []
    assert done.mended == 0
    made = photograph(stack)
    for caller in callers:
        for request_id, (operation_id, added) in caller.creates.items():
            [found] = made.repository.requests(RequestId(request_id))
            assert found.operation_id == operation_id
            assert made.operation(operation_id).total >= added
    assert faulted >= total * DRIZZLE / 2
