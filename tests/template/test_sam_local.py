"""What SAM CLI makes of the template under `sam local`, asked of its own providers: no Docker is needed.

``start-api`` builds its routes, its events and its answers from these very classes; only the function
runs here in this process, over a ``World``, and not in a container.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from samcli.commands.local.lib.local_lambda import LocalLambdaRunner
from samcli.lib.providers.api_provider import ApiProvider
from samcli.lib.providers.sam_function_provider import SamFunctionProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider
from samcli.local.apigw.local_apigw_service import LocalApigwService

from paddock.http.routes import METHODS
from paddock.settings import require_deployed_names
from tests.emulator.forward import check_address
from tests.emulator.processes import StackError
from tests.emulator.sam_env import SAM_VARIABLES
from tests.emulator.sam_local import for_architecture
from tests.emulator.template import ROOT, TEMPLATE, load_template
from tests.fakes.api import handle, serve
from tests.fakes.world import CLUSTER, World
from tests.template.test_routes import ANY, ROUTES, served

if TYPE_CHECKING:
    from collections.abc import Iterator

# SAM CLI calls functions of its own libraries that warn.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@cache
def stacks() -> Any:
    return SamLocalStackProvider.get_stacks(str(TEMPLATE))[0]


@cache
def functions() -> Any:
    return SamFunctionProvider(stacks(), use_raw_codeuri=True, ignore_code_extraction_warnings=True)


FUNCTIONS = {
    name: resource["Properties"]["Handler"]
    for name, resource in load_template()["Resources"].items()
    if resource["Type"] == "AWS::Serverless::Function"
}
RIGHT = {"Authorization": "Basic " + base64.b64encode(b"admin:paddock-local").decode()}
WRONG = {"Authorization": "Basic " + base64.b64encode(b"admin:wrong").decode()}
NAMES = {"cluster": CLUSTER, "nodearray": "none", "operation": "none", "virtualCluster": "none"}


class InProcess:
    """Runs a function where SAM CLI runs a container, and prints what the runtime prints."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def is_debugging(self) -> bool:
        return False

    def invoke(self, name: str, event: str, stdout: Any, **_rest: Any) -> None:
        self.ran.append(name)
        try:
            answer = handle(FUNCTIONS[name], json.loads(event))
        except Exception as error:  # noqa: BLE001 - Lambda tells any
            answer = {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": []}
        stdout.write_str(json.dumps(answer))


class StartApi:
    def __init__(self) -> None:
        self.runner = InProcess()
        api = ApiProvider(stacks(), cwd=str(ROOT)).api
        service = LocalApigwService(api, self.runner, port=0, host="127.0.0.1")
        service.create()
        service._app.testing = False
        service._app.config["PROPAGATE_EXCEPTIONS"] = False
        self._client = service._app.test_client()

    def ask(self, method: str, path: str, headers: dict[str, str], body: str | None = None) -> Any:
        return self._client.open(path, method=method, headers=headers, data=body)


@pytest.fixture
def start_api(monkeypatch: pytest.MonkeyPatch) -> Iterator[StartApi]:
    serve(World(), monkeypatch)
    logging.disable(logging.CRITICAL)
    yield StartApi()
    logging.disable(logging.NOTSET)


def test_start_api_serves_each_method_of_each_path_as_aws_does(start_api: StartApi) -> None:
    """By the same function, and with the same refusal where the path does not take the method."""
    for path, methods in METHODS.items():
        for method in ANY:
            reply = start_api.ask(method, path.format(**NAMES), RIGHT, body="{}")
            assert FUNCTIONS[start_api.runner.ran[-1]] == served()[method, path], (method, path)
            refused = (reply.status_code, reply.headers.get("Allow")) == (405, ", ".join(methods))
            assert refused == (method not in methods), (method, path, reply.status_code)


def test_start_api_answers_an_unknown_path_with_404(start_api: StartApi) -> None:
    for path in ("/", "/no/such/route", f"/clusters/{CLUSTER}/nodes/juggle"):
        assert start_api.ask("GET", path, RIGHT).status_code == 404


def test_start_api_answers_what_is_asked(start_api: StartApi) -> None:
    assert start_api.ask("GET", f"/clusters/{CLUSTER}/status", RIGHT).status_code == 200
    assert start_api.ask("GET", "/operations/?request_id=none", RIGHT).json == []
    body = '{"requestId": "one", "sets": [{"count": 1, "nodearray": "ondemand"}]}'
    reply = start_api.ask("POST", f"/clusters/{CLUSTER}/nodes/create", RIGHT, body)
    assert reply.status_code == 202


def test_start_api_leaves_health_open_and_nothing_else(start_api: StartApi) -> None:
    assert start_api.ask("GET", "/healthz", {}).status_code == 200
    # SAM CLI does not check AWS's own authorization; the function finds no instance that asks.
    assert start_api.ask("GET", "/self", {}).status_code == 404
    for method, path in [*ROUTES, ("PATCH", "/healthz"), ("GET", "/"), ("GET", "/no/such/route")]:
        if path not in {"/healthz", "/self"} or method != "GET":
            assert start_api.ask(method, path.format(**NAMES), {}).status_code == 401, (method, path)


def test_start_api_refuses_wrong_credentials(start_api: StartApi) -> None:
    """API Gateway says 401; SAM CLI 500 or 502 for an authorizer that raises, 403 for one that denies."""
    assert start_api.ask("GET", "/clusters", WRONG).status_code in {401, 403, 500, 502}
    assert [FUNCTIONS[name] for name in start_api.runner.ran] == ["authorizer.basic.handler"]


def variables(name: str, overrides: dict[str, str]) -> dict[str, str]:
    """Return what `sam local` passes to the function ``name``."""
    runner = LocalLambdaRunner(
        None, functions(), str(ROOT), str(ROOT), env_vars_values={"Parameters": overrides}
    )
    function = functions().get(name)
    assert function is not None
    resolved: dict[str, str] = runner._make_env_vars(function).resolve()
    return resolved


@pytest.fixture
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    for name in SAM_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_account")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sam_passes_every_variable_of_the_file_that_make_local_writes(name: str) -> None:
    """It passes none that the template does not declare, and says nothing of it."""
    told = {variable: f"told {variable}" for variable in SAM_VARIABLES}
    passed = variables(name, told)
    own = load_template()["Resources"][name]["Properties"].get("Environment", {}).get("Variables", {})
    general = load_template()["Globals"]["Function"]["Environment"]["Variables"]
    assert {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL_SERVICE_QUOTAS"} <= passed.keys()
    for variable in told.keys() & (own.keys() | general.keys()):
        assert passed[variable] == told[variable]


@pytest.mark.usefixtures("no_account")
def test_each_variable_that_names_a_resource_is_in_the_file() -> None:
    """Else SAM passes the resource's name in the template, which nothing is called.

    Without PUBLIC_URL a function takes the address that the request was sent to, which is start-api's.
    """
    environments = [load_template()["Globals"]["Function"]] + [
        resource["Properties"] for name, resource in load_template()["Resources"].items() if name in FUNCTIONS
    ]
    parameters = [{"Ref": name} for name in load_template()["Parameters"]]
    named = {
        variable
        for properties in environments
        for variable, value in properties.get("Environment", {}).get("Variables", {}).items()
        if isinstance(value, dict) and value not in parameters
    }
    # The namespace of metrics may have any name; the cluster is `make local`'s, whatever the default.
    named -= {"PUBLIC_URL", "POWERTOOLS_METRICS_NAMESPACE"}
    assert named | {"DEFAULT_CLUSTER"} == {*SAM_VARIABLES}


@pytest.mark.usefixtures("no_account")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_without_the_file_no_function_that_calls_aws_starts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its endpoints are then empty, so it would talk to the account whose credentials the shell has."""
    for variable, value in variables(name, {}).items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit, match=r"^paddock: TABLE_NAME is 'Table'.* --env-vars .local/sam-env.json"):
        require_deployed_names()


def test_bootstrap_which_makes_all_clients_checks_the_names() -> None:
    """In a process of its own, as a function starts."""
    environment = os.environ | {"TABLE_NAME": "Table", "PYTHONPATH": str(ROOT / "layers/shared/python")}
    command = [sys.executable, "-c", "import paddock.bootstrap"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("paddock: TABLE_NAME is 'Table'")


def test_deployed_functions_have_no_endpoints() -> None:
    """On AWS no stack's URL suffix is SAM CLI's, so CloudFormation leaves the variables out."""
    template = load_template()
    assert template["Conditions"]["IsSamLocal"] == {"Fn::Equals": [{"Ref": "AWS::URLSuffix"}, "localhost"]}
    general = template["Globals"]["Function"]["Environment"]["Variables"]
    for variable in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL_SERVICE_QUOTAS"):
        condition, _, deployed = general[variable]["Fn::If"]
        assert (condition, deployed) == ("IsSamLocal", {"Ref": "AWS::NoValue"})


def test_the_build_for_this_computer_differs_in_the_processor_alone() -> None:
    text = TEMPLATE.read_text()
    changed = for_architecture(text, "x86_64")
    lines = [pair for pair in zip(text.splitlines(), changed.splitlines(), strict=True) if pair[0] != pair[1]]
    assert lines == [("    Architectures: [arm64]", "    Architectures: [x86_64]")]


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "", "8.8.8.8", "docker0"])  # noqa: S104  # refused
def test_make_local_listens_for_containers_at_one_private_address_alone(address: str) -> None:
    with pytest.raises(StackError, match="one private IPv4 address"):
        check_address(address)
    assert check_address("172.17.0.1") == "172.17.0.1"
