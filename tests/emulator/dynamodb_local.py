"""Amazon's own DynamoDB Local: what it refuses, DynamoDB refuses.

It needs Java, and npm to fetch it once: Amazon publishes it inside the package below. It is bound to
127.0.0.1, which its own command line cannot do (it listens on all addresses), so Jetty's XML starter builds
its server from ``dynamodb_local.xml``. It keeps its tables in memory and sends no telemetry.

Run as a module, this is the process that has Java as its child, and ends it at SIGTERM.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.emulator.processes import HOST, Child, StackError, free_port
from tests.emulator.reset import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "amplify-dynamodb-simulator"
VERSION = "2.9.30"
# As npm's registry names it for this version: whatever is fetched must have this SHA-512.
INTEGRITY = "xTeeRLvzEfqyd5lh3bH4c0kHvSHHmmhD5ZDsHFKAQ5g2Zl6JqlFdutaQhCLHzxEp6Ry1o7TB6niIoXuQAnSewQ=="
PLACE = LOCAL / "dynamodb-local" / VERSION
SERVER = Path(__file__).with_suffix(".xml")
FETCH_SECONDS = 300
# Java's second compiler and its parallel collector cost more than they save in the seconds that tests last.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class NotHereError(Exception):
    """DynamoDB Local cannot run here, and why, in a few words."""


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """Run an empty one, and answer its address; it ends with the context. Raises ``NotHereError``."""
    child, url = start(directory)
    try:
        yield url
    finally:
        child.stop(signal.SIGTERM, timeout_seconds=5)


def start(directory: Path) -> tuple[Child, str]:
    """The process group and its address. It is gone when this process is. Raises ``NotHereError``."""
    home, port = installed(), free_port()
    module = ["tests.emulator.dynamodb_local", str(home), str(port)]
    environment = {"PATH": os.environ["PATH"], "DDB_LOCAL_TELEMETRY": "0"}
    log = directory / "dynamodb-local.log"
    child = Child("DynamoDB Local", module, environment, log, sign=signal.SIGTERM)
    try:
        child.wait_until_listening(port)
    except BaseException:
        child.stop(signal.SIGTERM, timeout_seconds=5)
        raise
    return child, f"http://{HOST}:{port}"


def main(home: str, port: str) -> int:
    """Run Java until it ends, or until SIGTERM."""
    library = f"{home}/DynamoDBLocal_lib"
    java = subprocess.Popen(
        [
            *(_tool("java"), "-Xmx512m", *SHORT_LIVED),
            *(f"-Dpaddock.port={port}", f"-Djava.library.path={library}"),
            *("-cp", f"{home}/DynamoDBLocal.jar:{library}/*"),
            *("org.eclipse.jetty.xml.XmlConfiguration", str(SERVER)),
        ],
        stdin=subprocess.DEVNULL,
    )
    # It keeps nothing, so there is nothing to wait for.
    signal.signal(signal.SIGTERM, lambda *_: java.kill())
    return java.wait()


def installed() -> Path:
    """Where it is; fetched first where it is not. Raises ``NotHereError``."""
    _tool("java")
    if not PLACE.exists():
        npm = _tool("npm")
        PLACE.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=PLACE.parent) as made:
            _unpack(_fetched(npm, Path(made)), Path(made))
            unpacked = Path(made) / "package" / "emulator"
            if not PLACE.exists():
                unpacked.rename(PLACE)
    return PLACE


def _fetched(npm: str, directory: Path) -> Path:
    arguments = [npm, "pack", f"{PACKAGE}@{VERSION}", "--pack-destination", str(directory), "--silent"]
    try:
        subprocess.run(arguments, check=True, capture_output=True, cwd=directory, timeout=FETCH_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise NotHereError(f"npm cannot fetch {PACKAGE}@{VERSION}") from error
    return directory / f"{PACKAGE}-{VERSION}.tgz"


def _unpack(archive: Path, directory: Path) -> None:
    """Unpack it, if it is what it was when the version was pinned."""
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != INTEGRITY:
        raise StackError(f"{PACKAGE}@{VERSION} must have the SHA-512 {INTEGRITY}, not {found}")
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise NotHereError(f"there is no {name}")
    return path


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
