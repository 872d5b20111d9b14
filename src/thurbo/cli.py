"""The command line: `thurbo COMMAND`, a thin layer of words over the library.

Commands import what they need when they run, so `thurbo --help` loads neither JAX nor a dataframe library.
Results go to standard output, progress to standard error; bad input ends with status 2 and one sentence.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from thurbo import __version__
from thurbo.errors import ThurboError

app = typer.Typer(
    name="thurbo",
    help="Learn from inequalities: Thurstonian Boltzmann machines for tables of mixed data.",
    add_completion=False,
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


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes.")] = Path("report.html"),
    hidden: Annotated[int, typer.Option(min=1, help="Number of hidden units.")] = 6,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")] = False,
) -> None:
    """Fit the bundled Star Wars survey, say what was found, and write it as one page."""
    from thurbo import demo as story

    found = story.run(n_hidden=hidden, max_epochs=epochs, seed=seed, output=output, progress=None if quiet else _say)
    story.tell(found)


def _say(message: str) -> None:
    typer.echo(message, err=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0, or 2 after one sentence on standard error for bad input."""
    try:
        status = app(args=arguments, prog_name="thurbo", standalone_mode=False)
    except ThurboError as error:
        _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", status=130)
    except Exception as error:
        if _is_usage_error(error):
            _fail(_usage_sentence(error))
        if os.environ.get("THURBO_TRACEBACK"):
            raise
        _fail(
            f"unexpected {type(error).__name__}: {error} (a fault in thurbo; THURBO_TRACEBACK=1 shows where)",
            status=1,
        )
    if status == 130:  # typer turns an interrupt into this status by itself
        _fail("interrupted", status)
    sys.exit(status if isinstance(status, int) else 0)


def _is_usage_error(error: Exception) -> bool:
    # By shape, not by class: newer typers carry their own copy of click, older ones import it.
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _usage_sentence(error: Any) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "thurbo"
    return f"{error.format_message().rstrip('.')}; see {command} --help"


def _fail(sentence: str, status: int = 2) -> None:
    typer.echo("thurbo: " + " ".join(sentence.split()), err=True)
    sys.exit(status)
