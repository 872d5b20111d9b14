"""The command `thurbo`: how it starts, and how it ends.

Results go to standard output, progress and warnings to standard error. Bad input ends with status 2 and one sentence,
an interrupt with 130, a fault of thurbo's own with 1; none with a traceback, unless THURBO_TRACEBACK is set.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

from thurbo import __version__
from thurbo.errors import ConvergenceWarning, SchemaWarning, ThurboError

app = typer.Typer(
    name="thurbo",
    help="Learn from inequalities: Thurstonian Boltzmann machines for tables of mixed data.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"thurbo {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def say(message: str) -> None:
    """A line of progress."""
    typer.echo(message, err=True)


def counted(n: int, what: str) -> str:
    """A number of things: "1 row", "1,186 rows"."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0, or 2 after one sentence on standard error for bad input."""
    with warnings.catch_warnings():
        _warn_in_sentences()
        status = _run(arguments)
    sys.exit(status)


def _run(arguments: list[str] | None) -> int:
    try:
        status = app(args=arguments, prog_name="thurbo", standalone_mode=False)
    except ThurboError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        _fail(f"this needs {error.name}, which is not installed; install it with: pip install 'thurbo[all]'")
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", status=130)
    except Exception as error:
        if _is_usage_error(error):
            _fail(_usage_sentence(error, sys.argv[1:] if arguments is None else arguments))
        if os.environ.get("THURBO_TRACEBACK"):
            raise
        _fail(
            f"unexpected {type(error).__name__}: {error} (a fault in thurbo; THURBO_TRACEBACK=1 shows where)",
            status=1,
        )
    if status == 130:  # typer turns an interrupt into this status by itself
        _fail("interrupted", status)
    return status if isinstance(status, int) else 0


def _warn_in_sentences() -> None:
    """What thurbo warns of is said in one line; other libraries' warnings are for programmers."""

    def tell(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        say(f"thurbo: warning: {_flat(str(message))}")

    warnings.simplefilter("ignore")
    warnings.simplefilter("always", ConvergenceWarning)
    warnings.simplefilter("default", SchemaWarning)  # a table may be read more than once, and is what it is
    warnings.showwarning = tell


def _is_usage_error(error: Exception) -> bool:
    # By shape, not by class: newer typers carry their own copy of click, older ones import it.
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _usage_sentence(error: Any, arguments: list[str]) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "thurbo"
    message, said = error.format_message().rstrip("."), _said(getattr(error, "param", None), arguments)
    if said and said not in message:
        message += f", not {said}"
    return f"{message}; see {command} --help"


def _said(option: Any, arguments: list[str]) -> str:
    """What the user wrote for an option, which not every typer repeats."""
    names = tuple(getattr(option, "opts", ()))
    for place, word in enumerate(arguments):
        name, sign, value = word.partition("=")
        if name in names and (sign or place + 1 < len(arguments)):
            return value if sign else arguments[place + 1]
    return ""


def _flat(text: str) -> str:
    return " ".join(text.split())


def _fail(sentence: str, status: int = 2) -> NoReturn:
    say("thurbo: " + _flat(sentence))
    sys.exit(status)
