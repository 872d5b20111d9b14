"""The command `thurbo`: start, exit status and error messages.

Results go to standard output, progress and warnings to standard error. Bad input ends with status 2 and one sentence,
an interrupt with 130, an internal error with 1; a traceback is shown only if THURBO_TRACEBACK is set.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial, wraps
from importlib.util import LazyLoader, find_spec, module_from_spec
from inspect import Parameter, Signature, signature
from types import ModuleType
from typing import Annotated, Any, NoReturn, TypeVar, get_type_hints

import typer

from thurbo import __version__
from thurbo.app.cli.options import declared, place
from thurbo.errors import ConvergenceWarning, NumericalWarning, SchemaWarning, ThurboError, in_toml

app = typer.Typer(
    name="thurbo",
    help="Imputation, prediction, segments and rankings for mixed survey tables (Thurstonian Boltzmann machines).",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Function = TypeVar("Function", bound=Callable[..., None])


def command(function: Function) -> Function:
    """Register a command, with its options in the order of options.toml; a group stands for all of its options."""
    settings, hints = dict(signature(function).parameters), get_type_hints(function)
    groups: dict[str, Any] = {name: hints[name] for name in settings if is_dataclass(hints[name])}
    for name, group in groups.items():
        del settings[name]
        settings |= signature(group).parameters
        hints |= get_type_hints(group)
    parameters = []
    for name in sorted(settings, key=partial(place, function.__name__)):
        option = declared(function.__name__, name, settings[name].default is False)
        changed: dict[str, Any] = {"kind": Parameter.KEYWORD_ONLY, "annotation": Annotated[hints[name], option]}
        parameters.append(settings[name].replace(**changed))

    @wraps(function)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each: given.pop(each) for each in signature(group).parameters})
        function(**given)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    app.command()(run)
    return function


class CommandInterrupted(Exception):
    """A command that was interrupted, with a sentence about what is left of its work."""


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    if version:
        typer.echo(f"thurbo {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def lazy(name: str) -> ModuleType:
    """A module that is loaded when something of it is first used."""
    if name not in sys.modules:
        spec: Any = find_spec(name)
        spec.loader = LazyLoader(spec.loader)
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def say(message: str) -> None:
    """Print a line of progress to standard error."""
    typer.echo(message, err=True)


def one_line(message: object) -> str:
    """A message in the words of the command line and of schema files."""
    return in_toml(" ".join(str(message).split()))


def counted(n: int, what: str) -> str:
    """A number with its noun: "1 row", "1,186 rows"."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with status 0, or 2 after a one-sentence error for bad input."""
    atexit.register(gc.freeze)  # the process ends: to search for garbage among all that was loaded would take .6 s

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        say(f"thurbo: warning: {one_line(message).replace('max_epochs=', '--epochs ')}")

    with warnings.catch_warnings():  # thurbo's warnings in one line each, and none of other libraries
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.simplefilter("always", NumericalWarning)
        warnings.filterwarnings("ignore", "interrupted after", ConvergenceWarning)  # commands say it themselves
        warnings.simplefilter("default", SchemaWarning)  # once per message, because a table may be read several times
        warnings.showwarning = show
        status = _run(arguments)
    sys.exit(status)


def _run(arguments: list[str] | None) -> int:
    try:
        status = app(args=arguments, prog_name="thurbo", standalone_mode=False)
    except ThurboError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        _fail(f"this needs {error.name}, which is not installed; install it with: pip install 'thurbo[all]'")
    except CommandInterrupted as error:
        _fail(error, status=130)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", status=130)
    except Exception as error:
        # By attributes, not by class: newer versions of typer contain a copy of click, older ones import it.
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            _fail(_usage_sentence(error, sys.argv[1:] if arguments is None else arguments))
        if os.environ.get("THURBO_TRACEBACK"):
            raise
        internal = "an internal error; THURBO_TRACEBACK=1 shows the traceback"
        _fail(f"unexpected {type(error).__name__}: {error} ({internal})", status=1)
    if status == 130:  # typer converts an interrupt to this status
        _fail("interrupted", status)
    return status if isinstance(status, int) else 0


def _usage_sentence(error: Any, arguments: list[str]) -> str:
    """What is wrong with the options, with the value that was given; not every version of typer repeats it."""
    context, option = getattr(error, "ctx", None), getattr(error, "param", None)
    message, value = error.format_message().rstrip("."), ""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, sign, given = word.partition("=")
        if not value and name in getattr(option, "opts", ()):
            value = given if sign else following
    if value and value not in message:
        message += f", not {value}"
    return f"{message}; see {context.command_path if context is not None else 'thurbo'} --help"


def _fail(sentence: object, status: int = 2) -> NoReturn:
    say(f"thurbo: {one_line(sentence)}")
    sys.exit(status)
