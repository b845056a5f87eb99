"""Build for `sam local` on this computer, and print the commands that run it: what `make sam-local` does."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from tests.emulator.reset import LOCAL
from tests.emulator.sam_env import HOST_NAME, SAM_ENV
from tests.emulator.stack import REGION, stage
from tests.emulator.template import ROOT

DIRECTORY = LOCAL / "sam-local"
BUILT = DIRECTORY / "build" / "template.yaml"
# How Lambda calls the processors that containers run on without emulation.
ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}

COMMANDS = """
Built for {architecture}: {built}

In one terminal:

  make local CONTAINERS=172.17.0.1

with the address of the bridge that containers are on (ip address show docker0); with Docker Desktop
CONTAINERS is left out. In another, any of:

  export AWS_ENDPOINT_URL=http://127.0.0.1:4566
  export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_SESSION_TOKEN=
  {sam} local invoke GetCluster {common} --event events/api/get_cluster.json
  {sam} local start-api {common} --warm-containers LAZY
  {sam} local start-lambda {common} --warm-containers LAZY
"""


def common_options() -> list[str]:
    """Return what each of the three commands takes."""
    return [
        *("--template", str(BUILT.relative_to(ROOT)), "--env-vars", str(SAM_ENV.relative_to(ROOT))),
        *("--region", REGION, "--add-host", f"{HOST_NAME}:host-gateway"),
    ]


def for_architecture(template: str, architecture: str) -> str:
    """Return the text of the template with its functions' and layers' processor replaced."""
    changed, count = re.subn(
        r"^( *Architectures: )\[.*\]$", rf"\1[{architecture}]", template, flags=re.MULTILINE
    )
    if count != 1:
        raise ValueError(f"template.yaml must name its processor once, not {count} times")
    return changed


def build(directory: Path = DIRECTORY) -> str:
    """Build, and return the processor that it was built for. Raises CalledProcessError."""
    architecture = ARCHITECTURES[platform.machine().lower()]
    source = stage(directory / "source")
    template = source / "template.yaml"
    template.write_text(for_architecture(template.read_text(), architecture))
    command = [str(Path(sys.executable).with_name("sam")), "build", "--template-file", str(template)]
    command += ["--base-dir", str(source), "--build-dir", str(directory / "build")]
    # What the layer's Makefile reads: pip of this Python fetches wheels for the runtime's.
    environment = {k: v for k, v in os.environ.items() if k != "LAYER_TARGET"} | {
        "HOST_PYTHON": sys.executable,
        "SAM_CLI_TELEMETRY": "0",
    }
    log = directory / "build.log"
    with log.open("w") as output:
        subprocess.run(command, env=environment, cwd=ROOT, stdout=output, stderr=output, check=True)
    return architecture


def main() -> int:
    """Build and tell. Return the exit status."""
    if platform.machine().lower() not in ARCHITECTURES:
        print(f"paddock: Lambda has no runtime for {platform.machine()}", file=sys.stderr)
        return 1
    try:
        architecture = build()
    except subprocess.CalledProcessError:
        log = (DIRECTORY / "build.log").relative_to(ROOT)
        print(f"paddock: sam build failed; its output is in {log}", file=sys.stderr)
        return 1
    sam = Path(sys.executable).with_name("sam")
    print(
        COMMANDS.format(
            architecture=architecture,
            built=BUILT.relative_to(ROOT),
            sam=sam.relative_to(ROOT) if sam.is_relative_to(ROOT) else sam,
            common=" ".join(common_options()),
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
