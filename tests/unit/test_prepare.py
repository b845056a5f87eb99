"""The environment of the make targets: mended where it is half made, and of the Python that was asked for."""

from __future__ import annotations

import subprocess
import sys
import venv
from typing import TYPE_CHECKING

import pytest

from tests.emulator import prepare
from tests.emulator.prepare import CannotPrepareError

if TYPE_CHECKING:
    from pathlib import Path


def without_pip(environment: Path) -> None:
    """What Ctrl-C leaves while pip is being put into it."""
    venv.create(environment, with_pip=False, symlinks=True)


def with_a_module_named_pip(environment: Path) -> None:
    """As good as one with pip, and made in a moment."""
    without_pip(environment)
    [library] = environment.glob("lib/python3*/site-packages")
    (library / "pip.py").write_text("")
    unpack(environment, "pip-1.dist-info", "METADATA", "INSTALLER")


def unpack(environment: Path, folder: str, *files: str) -> None:
    """What pip leaves of a package's own description: INSTALLER comes after all that was in the package."""
    [library] = environment.glob("lib/python3*/site-packages")
    (library / folder).mkdir()
    for name in files:
        (library / folder / name).write_text("pip")


def test_an_environment_without_pip_is_not_usable(tmp_path: Path) -> None:
    without_pip(tmp_path / ".venv")
    assert not prepare.is_ready(tmp_path / ".venv")


@pytest.mark.parametrize("folder", ["one-1.dist-info", "pip-1.dist-info"])
def test_an_environment_with_a_package_that_was_not_unpacked_to_its_end_is_not_usable(
    folder: str, tmp_path: Path
) -> None:
    """Ctrl-C while packages are installed; pip itself would say that it has the package already."""
    without_pip(tmp_path / ".venv")
    [library] = (tmp_path / ".venv").glob("lib/python3*/site-packages")
    (library / "pip.py").write_text("")
    unpack(tmp_path / ".venv", folder, "METADATA")
    assert not prepare.is_ready(tmp_path / ".venv")


def test_an_environment_that_is_only_linked_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may use it. The link alone gives way."""
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    without_pip(elsewhere)
    (folder / ".venv").symlink_to(elsewhere)
    (folder / "requirements-dev.txt").write_text("# nothing\n")
    monkeypatch.setattr(prepare, "make", with_a_module_named_pip)
    monkeypatch.setattr(prepare, "install", lambda *_: None)
    prepare.prepare(folder)
    assert prepare.is_ready(folder / ".venv")
    assert not (folder / ".venv").is_symlink()
    assert (elsewhere / "pyvenv.cfg").exists()


def test_an_environment_of_this_python_is_usable(tmp_path: Path) -> None:
    with_a_module_named_pip(tmp_path / ".venv")
    assert prepare.is_ready(tmp_path / ".venv")


def test_an_environment_of_another_python_is_not_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_a_module_named_pip(tmp_path / ".venv")
    monkeypatch.setattr(sys, "version", "3.99.0")
    assert not prepare.is_ready(tmp_path / ".venv")


@pytest.mark.parametrize("is_there", [False, True], ids=["no environment", "half an environment"])
def test_what_is_missing_or_half_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    environment = tmp_path / ".venv"
    if is_there:
        without_pip(environment)
        (environment / "left-over").touch()
    (tmp_path / "requirements-dev.txt").write_text("# nothing\n")
    monkeypatch.setattr(prepare, "make", with_a_module_named_pip)
    monkeypatch.setattr(prepare, "install", lambda *_: None)
    prepare.prepare(tmp_path)
    assert prepare.is_ready(environment)
    assert not (environment / "left-over").exists()


def test_a_path_with_blanks_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a folder").mkdir()
    with pytest.raises(CannotPrepareError, match="must have no blanks") as problem:
        prepare.prepare(tmp_path / "a folder")
    assert "\n" not in str(problem.value)
    assert list((tmp_path / "a folder").iterdir()) == []


@pytest.mark.parametrize("version", [(3, 8), (3, 10)])
def test_a_python_that_is_too_old_is_refused(version: tuple[int, int], tmp_path: Path) -> None:
    with pytest.raises(CannotPrepareError, match="is too old"):
        prepare.check(version, tmp_path)


def test_packages_that_cannot_be_installed_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The module named pip says why, and fails."""
    with_a_module_named_pip(tmp_path / ".venv")
    [library] = (tmp_path / ".venv").glob("lib/python3*/site-packages")
    (library / "pip.py").write_text("print('Collecting one==1'); raise SystemExit('there is no network')")
    (tmp_path / "requirements-dev.txt").write_text("one==1\n")
    with pytest.raises(CannotPrepareError, match="could not be installed"):
        prepare.install(tmp_path / ".venv", tmp_path / "requirements-dev.txt")
    told = capsys.readouterr()
    assert "package 1 of at most 1: one" in told.out
    assert "there is no network" in told.err


def test_the_makefile_calls_it_with_the_python_that_was_asked_for(tmp_path: Path) -> None:
    """A folder with a blank is refused before anything is made."""
    folder = tmp_path / "a b"
    (folder / "tests" / "emulator").mkdir(parents=True)
    for name in ("Makefile", "requirements-dev.txt", "tests/emulator/prepare.py"):
        (folder / name).write_text((prepare.ROOT / name).read_text())
    made = subprocess.run(
        ["make", "test", f"PYTHON={sys.executable}"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert made.returncode != 0
    assert "must have no blanks" in made.stderr
    assert not (folder / ".venv").exists()
