"""`thurbo check` and `thurbo fit`: infer the schema of a file, and fit a model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer

from thurbo.app.cli import options, show, tables
from thurbo.app.cli.app import CommandInterrupted, command, counted, say
from thurbo.errors import ThurboError


@command
def check(
    data: Path,
    *,
    schema: Path | None = None,
    output: Path | None = None,
    missing: str | None = None,
    details: bool = False,
    edit: bool = False,
    port: int = 0,
    browser: bool = True,
    names: options.LongNames,
) -> None:
    """Show how a file is read: what is modelled, what to check and why, what is left out, and all problems.

    With --edit, correct it in the browser.
    """
    from thurbo.app.cli import results
    from thurbo.app.cli.results import problems
    from thurbo.table.io.frames import as_table

    if edit:
        output = output or schema or _unwritten(data.with_suffix(".toml"))
    if output is not None:
        tables.check_output_as(output, ".toml")
    frame, found = with_schema(data, schema, names, missing)
    if not as_table(frame).n_rows:
        raise ThurboError(f'"{data}" has no rows; give at least one row')
    if edit and output is not None:
        from thurbo.app.editor import Editor

        editor = Editor(found, frame, output, title=data.name, is_saved=output == schema)
        show.serve(editor, port=port, browser=browser)
        say(f"The schema is in {output}." if editor.is_saved else "The last changes were not saved.")
        return
    errors = problems(found, frame)
    results.show_summary(found, frame, data, errors)
    if schema is None and names.row is None and (advice := tables.hint(frame)):
        typer.echo(advice)
    if details:
        results.show_details(found, frame, errors, is_inferred=schema is None)
    if output is not None:
        found.to_toml(output)
        typer.echo(f"\nSchema written to {output}")
    if errors:
        raise ThurboError(f"{results.count_problems(errors)} in {data}; correct the cells or the schema")


def _unwritten(path: Path) -> Path:
    """The file that is to be written, if nobody said which; an existing one is not replaced."""
    if path.exists():
        raise ThurboError(f"{path} exists; give -s {path} to go on with it, or -o for another file")
    return path


def with_schema(data: Path, path: Path | None, names: options.LongNames, missing: str | None = None) -> tuple[Any, Any]:
    """A table with its schema, from the schema file if there is one."""
    from thurbo.table.schema.schema import Schema

    codes = _codes(missing)
    chosen = None if path is None else Schema.from_toml(path)  # first, because reading a large table takes longer
    return tables.read_long(data, names, chosen, codes)


def _codes(text: str | None) -> dict[str, str]:
    """Values that mean "no answer", and their names: "-9=refused,-8"."""
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, (text or "").split(","))):
        value, _, name = (word.strip() for word in part.partition("="))
        if not value:
            raise ThurboError(f'--missing has no value before "={name}"; write for example --missing -9=refused,-8')
        found[value] = name or value
    if text is not None and not found:
        raise ThurboError("--missing names no value; write for example --missing -9,-8")
    return found


@command
def fit(
    data: Path,
    output: Path,
    *,
    schema: Path | None = None,
    missing: str | None = None,
    names: options.LongNames,
    hidden: int | None = None,
    factors: int | None = None,
    epochs: int | None = None,
    max_time: float | None = None,
    objective: options.Objective = options.Objective.AUTO,
    unobserved: options.Unobserved = options.Unobserved.MARGINALIZE,
    ordinals: options.Ordinals | None = None,
    masking: options.Masking | None = None,
    hold_out: float | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    seed: int = 0,
    run: options.Work,
) -> None:
    """Fit a model to a table and save it."""
    began = time.perf_counter()
    tables.check_output_as(output)
    state = checkpoint or (_beside(output) if resume else None)
    if state is not None and state.absolute() == output.absolute():
        raise ThurboError("--checkpoint and --output name the same file; give --checkpoint another name")
    frame, found = with_schema(data, schema, names, missing)
    if not run.quiet and schema is None and names.row is None and (advice := tables.hint(frame)):
        say(advice)
    from thurbo.fit.settings import Learning, Prediction
    from thurbo.tbm import TBM

    share: Any = "auto" if hold_out is None else hold_out
    learning: Any = None if hold_out is None else Learning(validation_fraction=share)
    if masking is not None:
        learning = Prediction(masking=masking.value, validation_fraction=share)
    model = TBM(
        found if ordinals is None else found.read_ordinals(ordinals.value),
        n_hidden="auto" if hidden is None else hidden,
        n_factors="auto" if factors is None else factors,
        max_epochs="auto" if epochs is None else epochs,
        objective=objective.value,
        unobserved=unobserved.value,
        learning=learning,
        max_time=max_time,
        checkpoint=state,
        random_state=seed,
        verbose=not run.quiet,
    )
    before = time.perf_counter() - began  # reading the file
    model.fit(frame)
    model.time_spent_ = {name: s + before * (name in ("reading", "total")) for name, s in model.time_spent_.items()}
    if model._unfinished is not None:
        raise _interrupted(model, output, state)
    model.save(output)
    if state is not None and (not model.history_ or "settled" in model.history_[-1]):
        for each in (state, *state.parent.glob(f"{state.name}.[0-9]")):  # of all members
            each.unlink(missing_ok=True)  # kept if the fit did not run to its end, so that it can be resumed
    for line in _summary(model, frame, output):
        typer.echo(line)


def _interrupted(model: Any, output: Path, state: Path | None) -> CommandInterrupted:
    """Save the state of an interrupted fit; the model itself is not written, because it is not what was asked for."""
    done = f"interrupted after {counted(len(model.history_), 'epoch')}; {output} was not written"
    if not model._unfinished.run.number:
        return CommandInterrupted(f"{done}, and there is nothing to continue from")
    path = state or _beside(output)
    model._unfinished.save(path)
    command = "the same command" if state is not None else "the same command with --resume"
    return CommandInterrupted(f"{done}. The state of training is in {path}: give {command} to continue from it")


def _beside(output: Path) -> Path:
    return output.with_name(f"{output.name}.checkpoint")


def _summary(model: Any, frame: Any, output: Path) -> list[str]:
    """What was fitted to what, line by line."""
    from thurbo.app.report.wording import time_words
    from thurbo.table.io.frames import as_table

    n_rows, schema, history = as_table(frame).n_rows, model.schema_, model.history_
    units = counted(model.weights_.shape[1], "hidden unit")
    if model.loadings_.shape[1]:
        units += f" and {counted(model.loadings_.shape[1], 'factor')}"
    missing = "exclude" if schema.listed else model.unobserved
    held_out = [record["held_out"] for record in history if "held_out" in record]
    lines = [
        f"rows        {n_rows:,}",
        f"columns     {len(schema.modelled)} of {len(schema)} modelled, {schema.n_sites} sites",
        f"model       {units}, objective {model.objective_}, missing cells {missing}d",
        f"predictions {'exact' if model.method_ == 'exact' else 'approximate (mean-field)'}",
        f"objective   {history[-1]['objective']:.4f} nats per answer" if history else "objective   none",
        f"held out    {max(held_out):.4f} nats per answer" if held_out else "held out    no rows (see --hold-out)",
        f"time        {time_words(model.time_spent_)}, {counted(len(history), 'epoch')}",
    ]
    if not model.converged_:
        lines.append("settled     no: see the warning")
    return [*lines, f"saved       {output}"]
