"""Make ``.venv`` with the packages of requirements-dev.txt: what each make target needs first.

It runs under any Python 3.8 or newer, with nothing installed, so that it can say what is wrong.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements-dev.txt"
# Which Python an environment is of, and whether it has pip and its packages are whole. pip writes INSTALLER
# after what is in a package; one without it was cut short, and pip would take it for installed all the same.
ASK = """
import importlib.metadata, json, sys
importlib.metadata.distribution("pip")
whole = all(one.read_text("INSTALLER") is not None for one in importlib.metadata.distributions())
print(json.dumps([sys.version, sys.base_prefix, whole]))
"""


class CannotPrepareError(Exception):
    """What a person has to change, in one line."""


def main() -> int:
    """Prepare, and say what is done. Return the exit status."""
    try:
        prepare()
    except CannotPrepareError as problem:
        print(f"paddock: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\npaddock: stopped; the next call goes on", file=sys.stderr)
        return 130
    return 0


def prepare(root: Path = ROOT) -> None:
    """Make the environment, or mend one that was left half made. Raises ``CannotPrepareError``."""
    check(sys.version_info[:2], root)
    if not is_ready(root / ".venv"):
        remove(root / ".venv")
        make(root / ".venv")
    install(root / ".venv", root / "requirements-dev.txt")


def check(version: tuple[int, ...], root: Path) -> None:
    """Refuse a Python that is too old, and a path that scripts cannot have in their first line."""
    if version < OLDEST:
        found = ".".join(map(str, version))
        raise CannotPrepareError(f"Python {found} is too old; Python 3.11 or newer is needed (PYTHON=...)")
    if re.search(r"\s", str(root)):
        raise CannotPrepareError(f"the path {str(root)!r} must have no blanks; move this folder")


def is_ready(environment: Path) -> bool:
    """Whether the environment is whole, and of the Python that runs this."""
    python = environment / "bin" / "python"
    try:
        answer = subprocess.run([str(python), "-I", "-c", ASK], capture_output=True, text=True, check=True)
        found: list[str | bool] = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return False
    return found == [sys.version, sys.base_prefix, True]


def remove(environment: Path) -> None:
    """Remove what is there in place of an environment; of a link only the link: others may use the rest."""
    if environment.is_symlink() or environment.is_file():
        environment.unlink()
    elif environment.exists():
        print("paddock: .venv is half made or of another Python; making it again", flush=True)
        shutil.rmtree(environment)


def make(environment: Path) -> None:
    """Make an environment with pip and nothing else."""
    print("paddock: preparing .venv, once, in about a minute", flush=True)
    try:
        venv.create(environment, with_pip=True, symlinks=True)
    except (subprocess.CalledProcessError, ImportError, OSError) as error:
        shutil.rmtree(environment, ignore_errors=True)
        advice = "Debian: apt install python3-venv"
        raise CannotPrepareError(f"this Python cannot make an environment ({advice}): {error}") from error


def install(environment: Path, requirements: Path) -> None:
    """Install the packages, and count them while that goes on."""
    lines = requirements.read_text(encoding="utf-8").splitlines()
    wanted = sum(1 for line in lines if re.match(r"[A-Za-z0-9]", line))
    command = [str(environment / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    said: list[str] = []
    found: set[str] = set()
    with subprocess.Popen(
        [*command, "--requirement", str(requirements)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            if package := re.match(r"Collecting ([\w.-]+)|Requirement already satisfied: ([\w.-]+)", line):
                name = package[1] or package[2]
                found.add(name)
                tell(f"paddock: package {min(len(found), wanted)} of at most {wanted}: {name}")
            elif line.startswith("Installing collected packages"):
                tell("paddock: installing them")
    tell("")
    if pip.returncode:
        print("".join(said[-20:]), file=sys.stderr, end="")
        raise CannotPrepareError(f"the packages in {requirements.name} could not be installed, see above")


def tell(line: str) -> None:
    """Show progress: in one line of a terminal, else in lines of its own."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{line}", end="", flush=True)
    elif line:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
