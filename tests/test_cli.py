"""The command line: help and version, one sentence and status 2 for bad input, files whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from thurbo import __version__, cli
from thurbo.errors import SchemaError, ThurboError
from thurbo.io.files import write_atomically


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    captured = capsys.readouterr()
    assert isinstance(stop.value.code, int)
    return stop.value.code, captured.out, captured.err


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), (), ("demo", "--help")])
def test_help_is_a_result(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(*arguments, capsys=capsys)
    assert status == 0
    assert "Usage: thurbo" in out
    assert err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version", capsys=capsys) == (0, f"thurbo {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("dmeo",), "dmeo"),
        (("demo", "--hiden", "3"), "--hiden"),
        (("demo", "--hidden", "three"), "--hidden"),
        (("demo", "--hidden", "0"), "--hidden"),
        (("demo", "--epochs", "0"), "--epochs"),
        (("demo", "--seed", "-1"), "--seed"),
        (("demo", "surplus"), "surplus"),
    ],
)
def test_bad_arguments_get_one_sentence(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(*arguments, capsys=capsys)
    assert (status, out) == (2, "")
    assert err.startswith("thurbo: ")
    assert err.count("\n") == 1
    assert words in err


def test_an_unwritable_report_is_refused_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run("demo", "--quiet", "--output", str(tmp_path / "no" / "report.html"), capsys=capsys)
    assert (status, out) == (2, "")
    assert "directory does not exist" in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (
            SchemaError('level "alot" is not one of\nnone < some', row=17, column="trust"),
            2,
            'row 17, column "trust"',
        ),
        (ThurboError("a page needs a name"), 2, "a page needs a name"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("division by zero"), 1, "ZeroDivisionError"),
    ],
)
def test_failures_are_one_line_and_never_a_traceback(
    error: BaseException,
    status: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(**_: Any) -> None:
        raise error

    from thurbo import demo

    monkeypatch.delenv("THURBO_TRACEBACK", raising=False)
    monkeypatch.setattr(demo, "run", fail)
    code, out, err = run("demo", capsys=capsys)
    assert (code, out) == (status, "")
    assert words in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_the_installed_command_answers() -> None:
    command = Path(sys.executable).with_name("thurbo")
    if not command.exists():
        pytest.skip("the thurbo command is not installed beside this Python")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"thurbo {__version__}\n"


@pytest.mark.parametrize("data", ["Δ text\n", b"\x00\xff\n", "", b""])
def test_a_file_is_written_as_given(tmp_path: Path, data: bytes | str) -> None:
    path = tmp_path / "out"
    assert write_atomically(path, data) == path
    assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_changes_nothing(
    tmp_path: Path, step: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.write_text("before")

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(ThurboError if isinstance(error, OSError) else KeyboardInterrupt):
        write_atomically(path, "after")
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_permissions_are_those_of_the_file_or_of_the_user(tmp_path: Path) -> None:
    plain, private = tmp_path / "plain", tmp_path / "private"
    (tmp_path / "usual").write_text("")
    private.write_text("")
    private.chmod(0o600)
    write_atomically(plain, "x")
    write_atomically(private, "x")
    assert plain.stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert private.stat().st_mode & 0o777 == 0o600


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(ThurboError, match="is a directory"):
        write_atomically(tmp_path, "x")
    with pytest.raises(ThurboError, match="directory does not exist"):
        write_atomically(tmp_path / "missing" / "out", "x")
