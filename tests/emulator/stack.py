"""All of Paddock on this computer: an AWS emulator, an EC2 simulator, and template.yaml deployed to them.

Both `make local` and the integration tests start it from here, so they run what AWS runs: the same template,
deployed by the same tool. Nothing here can reach a real account: the children's environment has no AWS
settings but those that point at the emulators.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import ClientError

from tests.emulator.api_gateway import complete_api
from tests.emulator.client import Client
from tests.emulator.processes import HOST, Child, StackError, is_free
from tests.emulator.template import ROOT, load_template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

STACK_NAME = "paddock"
STAGE = "v1"
REGION = "us-east-1"
ACCOUNT = "000000000000"
BUCKET = "paddock-artifacts"
DEPLOYED = ("template.yaml", "functions", "layers")
# What the template and its deployment use. EC2 is the simulator's.
SERVICES = (
    "apigateway,cloudformation,dynamodb,events,iam,lambda,logs,monitoring,s3,scheduler,secretsmanager,sqs,"
    "states,sts"
)
# The emulator writes its state when it ends; without that there is nothing to wait for.
STOP_SECONDS = {True: 60, False: 1}


@dataclass(frozen=True)
class Settings:
    """How a stack runs.

    ``directory`` takes logs and state. ``build_directory`` takes what is built and may be shared by several
    stacks, one after another. ``wait_scale`` multiplies the seconds that the workflow waits. ``simulator``
    has settings of the EC2 simulator, ``parameters`` those of the template. The emulators keep the files
    ``held`` open, and so their locks, until they have ended.
    """

    port: int
    ec2_port: int
    directory: Path
    build_directory: Path
    credentials: tuple[str, str] = ("admin", "paddock-local")
    persist: bool = True
    wait_scale: float = 1.0
    simulator: Mapping[str, float] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    held: Sequence[int] = ()


# The simulator takes any number at once, unless a test has it count.
UNLIMITED = dict.fromkeys(
    ("InstanceLaunchBurst", "InstanceLaunchRate", "InstanceTerminateBurst", "InstanceTerminateRate"),
    "1000000",
)


class Stack:
    """One running copy. Start, deploy, use, stop."""

    def __init__(self, settings: Settings, report: Callable[[str], None] = lambda _line: None) -> None:
        self.settings = settings
        self.endpoint = f"http://{HOST}:{settings.port}"
        self.ec2_endpoint = f"http://{HOST}:{settings.ec2_port}"
        self.base_url = f"{self.endpoint}/_aws/execute-api/{STACK_NAME}/{STAGE}"
        self._report = report
        self.logs = settings.directory / "logs"
        self._children: list[tuple[Child, signal.Signals]] = []

    @property
    def client(self) -> Client:
        """An HTTP client with the right credentials."""
        return Client(self.base_url, self.settings.credentials)

    def aws(self, service: str, endpoint: str = "") -> Any:
        """Return a boto3 client of the emulator, or of the simulator for ``ec2``, unless told otherwise."""
        # Named through Any: the stubs have one overload for each service, and this takes whichever.
        create: Any = boto3.client
        return create(
            service,
            endpoint_url=endpoint or (self.ec2_endpoint if service == "ec2" else self.endpoint),
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106  # the emulator takes any
        )

    def ec2_control(self, name: str, **arguments: Any) -> None:
        """Call a method of the simulated EC2, such as ``capacity`` or ``lose``, which no real one has."""
        reply = Client(self.ec2_endpoint, None).post(f"/_fake/{name}", arguments)
        assert reply.status == 200, reply.body

    def start(self) -> None:
        """Start both emulators and wait until they answer."""
        for port in (self.settings.port, self.settings.ec2_port):
            if not is_free(port):
                raise StackError(f"port {port} is taken")
        self._report("starting the AWS emulator and the EC2 simulator")
        shutil.rmtree(self.settings.directory / "tmp", ignore_errors=True)
        (self.settings.directory / "tmp").mkdir(parents=True)
        simulator = ["tests.emulator.ec2_server", "--port", str(self.settings.ec2_port)]
        simulator += ["--state", str(self.settings.directory / "ec2.json")]
        simulator += ["--events", self.endpoint]
        for name, value in self.settings.simulator.items():
            simulator += [f"--{name.replace('_', '-')}", str(value)]
        ec2 = self._spawn("ec2", simulator, signal.SIGTERM)
        aws = self._spawn("aws", ["ministack"], signal.SIGINT)
        ec2.wait_until_listening(self.settings.ec2_port)
        aws.wait_until_listening(self.settings.port)

    def deploy(self) -> None:
        """Build and deploy the template as it is now, unless that very one is deployed already."""
        with self._building():
            source = stage(self.settings.build_directory / "source")
            fingerprint = self._fingerprint(source)
            record = self.settings.directory / "deployed"
            if self._is_deployed() and record.exists() and record.read_text() == fingerprint:
                self._report("the stack is deployed and unchanged")
                return
            record.unlink(missing_ok=True)
            self._build(source)
            self._deploy()
        template = load_template()
        complete_api(self.aws("apigateway"), template, STACK_NAME, STAGE, self._function_arns())
        self._allow_batches()
        self._limit_consumers()
        self._put_credentials()
        record.write_text(fingerprint)

    def ensure_cluster(self, name: str, definition: Path) -> None:
        """Create the cluster ``name`` unless it exists."""
        if self.client.get(f"/clusters/{name}").status == 200:
            return
        self._report(f"creating the cluster {name}")
        reply = self.client.put(f"/clusters/{name}", json.loads(definition.read_text()))
        if reply.status >= 300:
            raise StackError(f"the cluster {name} was refused: {reply.status} {reply.body.decode()[:500]}")

    def output(self, name: str) -> str:
        """Return the stack's output ``name``."""
        stack = self.aws("cloudformation").describe_stacks(StackName=STACK_NAME)["Stacks"][0]
        return next(str(o["OutputValue"]) for o in stack["Outputs"] if o["OutputKey"] == name)

    def resource(self, logical_id: str) -> str:
        """Return the physical id of a resource of the template."""
        resources = self.aws("cloudformation").describe_stack_resources(StackName=STACK_NAME)
        return next(
            str(one["PhysicalResourceId"])
            for one in resources["StackResources"]
            if one["LogicalResourceId"] == logical_id
        )

    def invoke(self, function: str, event: Any) -> Any:
        """Run the function with the logical id ``function`` and return what it answers."""
        answer = self.aws("lambda").invoke(
            FunctionName=self._function_arns()[function], Payload=json.dumps(event).encode()
        )
        payload = json.loads(answer["Payload"].read() or "null")
        if "FunctionError" in answer:
            raise StackError(f"{function} failed: {payload}")
        return payload

    def failed_child(self) -> Child | None:
        """Return an emulator that ended by itself, if one did."""
        return next((child for child, _ in self._children if not child.running), None)

    def stop(self) -> None:
        """Stop what was started, and only that; what the emulator unpacked is removed at the next start."""
        while self._children:
            child, sign = self._children.pop()
            child.stop(sign, STOP_SECONDS[self.settings.persist])

    def _spawn(self, name: str, arguments: list[str], sign: signal.Signals) -> Child:
        child = Child(
            name, arguments, self._environment(), self.logs / f"{name}.log", sign, self.settings.held
        )
        self._children.append((child, sign))
        return child

    def _environment(self) -> dict[str, str]:
        """Return what the children inherit, the functions included: they run as children of the emulator."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "SAM_", "LAMBDA_", "PYTHON", "POWERTOOLS_"))
        }
        directory = self.settings.directory
        return inherited | {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_EC2": self.ec2_endpoint,
            "AWS_ENDPOINT_URL_SERVICE_QUOTAS": self.ec2_endpoint,
            # What its gateway tells functions does not have the path by which it is reached.
            "PUBLIC_URL": self.base_url,
            "GATEWAY_PORT": str(self.settings.port),
            "BIND_HOST": HOST,
            "SERVICES": SERVICES,
            # Functions may do what their policies say, as on AWS.
            "AUTH": "true",
            "PERSIST_STATE": str(int(self.settings.persist)),
            "STATE_DIR": str(directory / "aws"),
            "S3_PERSIST": str(int(self.settings.persist)),
            "S3_DATA_DIR": str(directory / "s3"),
            "SFN_WAIT_SCALE": str(self.settings.wait_scale),
            # Otherwise it also listens at 0.0.0.0:8883.
            "IOT_MTLS_ENABLED": "0",
            "TMPDIR": str(directory / "tmp"),
            "SAM_CLI_TELEMETRY": "0",
            "SAM_CLI_POLL_DELAY": "0.2",
            # There is nobody here who takes traces.
            "POWERTOOLS_TRACE_DISABLED": "true",
            # Read by layers/bytecode.mk: functions run on this Python.
            "LAYER_TARGET": "host",
            "HOST_PYTHON": sys.executable,
            # Code that the emulator unpacks is thrown away with its bytecode.
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    @contextmanager
    def _building(self) -> Iterator[None]:
        """Keep other stacks out of the build directory."""
        self.settings.build_directory.mkdir(parents=True, exist_ok=True)
        with (self.settings.build_directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @property
    def _parameters(self) -> Mapping[str, str]:
        return {**UNLIMITED, **self.settings.parameters}

    def _fingerprint(self, source: Path) -> str:
        digest = hashlib.sha256(f"{sys.version} {sorted(self._parameters.items())}".encode())
        for path in sorted(source.rglob("*")):
            if path.is_file():
                digest.update(f"\n{path.relative_to(source)}\n".encode())
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def _is_deployed(self) -> bool:
        try:
            stacks = self.aws("cloudformation").describe_stacks(StackName=STACK_NAME)["Stacks"]
        except ClientError:
            return False
        return bool(stacks) and stacks[0]["StackStatus"] in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}

    def _build(self, source: Path) -> None:
        self._report("building the layers")
        # The cache knows what a layer is made from, but not which Python it was made for.
        cache = self.settings.build_directory / f"cache-{sys.implementation.cache_tag}"
        build = self.settings.build_directory / "build"
        self._sam(
            "build",
            *("--template-file", str(source / "template.yaml"), "--base-dir", str(source)),
            *("--build-dir", str(build), "--cached", "--cache-dir", str(cache)),
        )

    def _deploy(self) -> None:
        self._report("deploying template.yaml with the SAM CLI")
        with suppress(ClientError):
            self.aws("s3").create_bucket(Bucket=BUCKET)
        parameters = [f"{name}={value}" for name, value in self._parameters.items()]
        self._sam(
            "deploy",
            *("--template-file", str(self.settings.build_directory / "build" / "template.yaml")),
            *("--stack-name", STACK_NAME, "--s3-bucket", BUCKET, "--region", REGION),
            *("--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-fail-on-empty-changeset"),
            # The emulator makes this the API's id, and so a part of its address.
            *("--tags", f"ms-custom-id={STACK_NAME}", "--no-progressbar"),
            *("--parameter-overrides", *parameters),
        )

    def _sam(self, command: str, *arguments: str) -> None:
        log = self.logs / f"sam-{command}.log"
        log.unlink(missing_ok=True)
        sam = str(Path(sys.executable).with_name("sam"))
        if not Path(sam).exists():
            raise StackError(f"{sam} is missing; remove .venv and try again")
        child = Child(f"sam {command}", [sam, command, *arguments], self._environment(), log)
        if child.finish() != 0:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            said = next(
                (line for line in lines if "Error" in line), lines[-1] if lines else "it said nothing"
            )
            raise StackError(f"sam {command} failed: {said.strip()} (all of its output: {log})")

    def _function_arns(self) -> dict[str, str]:
        """Map the template's logical ids to the functions' ARNs."""
        pages = (
            self.aws("cloudformation").get_paginator("list_stack_resources").paginate(StackName=STACK_NAME)
        )
        arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:"
        return {
            resource["LogicalResourceId"]: arn + resource["PhysicalResourceId"]
            for page in pages
            for resource in page["StackResourceSummaries"]
            if resource["ResourceType"] == "AWS::Lambda::Function"
        }

    def _allow_batches(self) -> None:
        """On AWS ``sqs:SendMessage`` allows batches too; the emulator asks for an action of their own."""
        policy = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": "sqs:SendMessageBatch", "Resource": "*"}],
        }
        function = self._function_arns()["Reconcile"]
        role = self.aws("lambda").get_function_configuration(FunctionName=function)["Role"]
        self.aws("iam").put_role_policy(
            RoleName=role.rpartition("/")[2], PolicyName="batches", PolicyDocument=json.dumps(policy)
        )

    def _limit_consumers(self) -> None:
        """The emulator keeps a parameter that is a number as text, and stumbles over it."""
        functions = self.aws("lambda")
        for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
            limit = int(mapping["ScalingConfig"]["MaximumConcurrency"])
            functions.update_event_source_mapping(
                UUID=mapping["UUID"], ScalingConfig={"MaximumConcurrency": limit}
            )

    def _put_credentials(self) -> None:
        """Replace the generated password by a known one, before anything has read it."""
        secret = self.output("CredentialsSecretArn")
        user, password = self.settings.credentials
        content = json.dumps({"username": user, "password": password})
        self.aws("secretsmanager").put_secret_value(SecretId=secret, SecretString=content)


def stage(source: Path) -> Path:
    """Copy what is deployed to ``source``, without caches that would be deployed with it."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for name in DEPLOYED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, source / name)
    return source


@contextmanager
def started(settings: Settings) -> Iterator[Stack]:
    """A stack that runs for as long as this lasts; nothing is deployed yet."""
    stack = Stack(settings)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
