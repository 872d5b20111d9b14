"""A schema corrected in the browser: what the page asks, and the server that answers it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import thurbo as tb
from tests.column_cases import CASES
from tests.test_explorer import call
from thurbo.app.cli.app import app
from thurbo.app.editor import ALONE, TOGETHER, Editor
from thurbo.app.server import Server
from thurbo.errors import ThurboError

LEVELS = ["never", "sometimes", "often"]


def survey() -> dict[str, list[Any]]:
    """Two questions of one grid, a gate, a code of a number, two tick boxes, an identifier."""
    rng = np.random.default_rng(0)
    n = 80
    first = rng.integers(0, 3, n)
    gate = rng.integers(0, 2, n)
    return {
        "id": [f"p{k:03}" for k in range(n)],
        "do you sing": [LEVELS[k] for k in first],
        "do you dance": [LEVELS[k] for k in (first + rng.integers(0, 2, n)) % 3],
        "has a car": ["yes" if each else "no" for each in gate],
        "kind of car": [["old", "new", "other"][k % 3] if gate[k] else None for k in range(n)],
        "hours": [float(x) for x in rng.normal(30, 5, n).round(1)],
        "reads: books": ["x" if each else None for each in rng.permutation(n) % 2],
        "reads: news": ["x" if each else None for each in rng.permutation(n) % 3],
    }


def schema() -> tb.Schema:
    return tb.Schema(
        {
            "id": tb.Id(),
            "do you sing": tb.Categorical(LEVELS),
            "do you dance": tb.Categorical(LEVELS),
            "has a car": tb.Binary(true="yes"),
            "kind of car": tb.Categorical(["new", "old", "other"]),
            "hours": tb.Continuous(),
            "reads: books": tb.Binary(true="x"),
            "reads: news": tb.Binary(true="x"),
        },
        reasons={"hours": "a guess: 40 numbers; use Ordinal() if they are levels"},
        titles={"hours": "Hours of work"},
    )


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    return Editor(schema(), survey(), tmp_path / "schema.toml", title="cars")


def do(editor: Editor, change: str, **asked: Any) -> dict[str, Any]:
    """One correction by a page that has seen the latest version."""
    found: dict[str, Any] = editor.questions[change]({"version": editor.survey()["version"], **asked})
    return found


def records(editor: Editor) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in editor.survey()["questions"]}


def test_the_page_gets_every_question_with_its_answers(editor: Editor) -> None:
    found = editor.survey()
    table, by = survey(), records(editor)
    assert (found["title"], found["n_rows"], found["order"]) == ("cars", 80, list(table))
    assert (found["undo"], found["redo"], found["saved"]) == (False, False, False)
    sing = by["do you sing"]
    assert [(bar["text"], bar["n"]) for bar in sing["bars"]] == [(x, table["do you sing"].count(x)) for x in LEVELS]
    assert sing["same"] == ["do you sing", "do you dance"]
    assert not sing["ordered"]
    assert (by["kind of car"]["skip"], by["kind of car"]["n_not_asked"]) == (
        "asked only if has a car is yes",
        table["has a car"].count("no"),
    )
    assert sum(by["hours"]["histogram"]["counts"]) == 80
    assert by["hours"]["check"].startswith("40 numbers")
    assert by["hours"]["instead"] == ALONE["ordinal"]
    assert by["hours"]["text"] == "hours: Hours of work"
    assert by["id"]["n_distinct"] == 80
    assert json.dumps(found)  # plain values only


def test_corrections_change_all_questions_with_the_same_answers(editor: Editor) -> None:
    both = ["do you sing", "do you dance"]
    changed = do(editor, "type", names=both, kind="ordinal")
    assert {each["name"] for each in changed["questions"]} == set(both)
    assert [editor.schema[name].has_order for name in both] == [True, True]
    do(editor, "order", names=both, places=[2, 0, 1])
    labels = editor.schema["do you dance"].labels
    assert editor.schema["do you sing"].labels == labels
    changed = do(editor, "missing", names=both, places=[0])
    assert [editor.schema[name].missing for name in both] == [((labels[0], labels[0]),)] * 2
    assert [each["missing"][0]["n"] for each in changed["questions"]] == [
        survey()[name].count(labels[0]) for name in both
    ]
    do(editor, "missing", names=["hours"], places=[], typed=" 99 ")
    assert editor.schema["hours"].missing == (("99", "99"),)
    do(editor, "missing", names=both, places=[])
    assert set(editor.schema["do you sing"].labels) == set(LEVELS)


def test_the_page_hears_of_questions_that_are_no_longer_alike(editor: Editor) -> None:
    changed = do(editor, "type", names=["do you sing"], kind="ordinal")["questions"]
    assert {each["name"]: each["same"] for each in changed} == {"do you sing": [], "do you dance": []}


def test_a_question_gets_a_text_and_reports_its_name(editor: Editor) -> None:
    found = do(editor, "text", names=["kind of car"], text="  Which make   is it?")
    assert found["questions"][0]["brief"] == editor.schema.display_names["kind of car"] == "Which make is it?"
    assert editor.schema.titles["kind of car"] == "Which make is it?"
    assert "called" in found["said"]
    do(editor, "text", names=["kind of car"], text="")
    assert editor.schema.display_names["kind of car"] == "kind of car"
    with pytest.raises(ThurboError, match="at most 1000 letters"):
        do(editor, "text", names=["kind of car"], text="x" * 1001)


def test_groups_are_made_and_divided(editor: Editor) -> None:
    found = do(editor, "group", columns=["reads: books", "reads: news"], kind="multiselect")
    assert found["order"][-1] == "reads"
    record = records(editor)["reads"]
    assert record["members"] == [
        {"column": "reads: books", "label": "books"},
        {"column": "reads: news", "label": "news"},
    ]
    assert [(bar["text"], bar["n"]) for bar in record["bars"]] == [("books", 40), ("news", 53)]
    do(editor, "ungroup", names=["reads"])
    assert editor.schema.names == schema().names
    assert do(editor, "group", columns=["reads: books", "reads: news"], kind="mentions", name="hours")["order"][-1] == (
        "hours (2)"
    )


def test_undo_and_redo_reach_every_state_and_save_writes_the_one_on_show(editor: Editor) -> None:
    states = [editor.schema]
    for kind in ("ordinal", "ignore", "categorical"):
        do(editor, "type", names=["do you sing"], kind=kind)
        states.append(editor.schema)
    for state in states[2::-1]:
        assert do(editor, "undo")["redo"]
        assert editor.schema is state
    with pytest.raises(ThurboError, match="nothing to undo"):
        do(editor, "undo")
    do(editor, "redo")
    assert editor.schema is states[1]
    assert not editor.is_saved
    assert editor.questions["save"]({})["saved"]
    assert tb.Schema.from_toml(editor.output) == states[1]
    do(editor, "type", names=["hours"], kind="ignore")
    assert not editor.is_saved
    with pytest.raises(ThurboError, match="nothing to redo"):
        do(editor, "redo")
    do(editor, "undo")
    assert editor.is_saved


def test_what_was_looked_at_is_not_questionable(editor: Editor) -> None:
    do(editor, "confirm", names=["hours"])
    assert records(editor)["hours"]["check"] == ""
    assert editor.schema["hours"] == schema()["hours"]


def test_the_alternative_is_one_request(tmp_path: Path) -> None:
    apart = tb.Ordinal(["never", "sometimes"], missing=["often"])
    why = 'a scale; set apart from it: "often"; otherwise: categories, with "often" as an answer'
    guessed = tb.Schema({"do you sing": apart}, reasons={"do you sing": why}, confidence={"do you sing": 0.5})
    editor = Editor(guessed, survey(), tmp_path / "schema.toml")
    assert records(editor)["do you sing"]["instead"] == 'Answers without an order, with "often"'
    do(editor, "instead", names=["do you sing"])
    assert editor.schema["do you sing"] == tb.Categorical(LEVELS)
    with pytest.raises(ThurboError, match="nothing else is known"):
        do(editor, "instead", names=["do you sing"])


def test_skips_are_found_after_each_correction_unless_they_were_written_by_hand(tmp_path: Path) -> None:
    found = Editor(schema(), survey(), tmp_path / "a.toml")
    assert [str(skip) for skip in found.schema.skips] == ["kind of car: asked only if has a car = yes"]
    do(found, "type", names=["has a car"], kind="ignore")
    do(found, "type", names=["has a car"], kind="binary")
    assert [str(skip) for skip in found.schema.skips] == ["kind of car: asked only if has a car = yes"]
    own = [tb.Skip(["hours"], "do you sing", ["never"])]
    written = Editor(schema().with_skips(own), survey(), tmp_path / "b.toml")
    do(written, "type", names=["do you dance"], kind="ordinal")
    assert list(written.schema.skips) == own


def test_a_question_that_cannot_be_read_is_shown_with_its_problem(tmp_path: Path) -> None:
    wrong = schema() | {"has a car": tb.Ordinal(["yes", "perhaps"])}
    editor = Editor(wrong, survey(), tmp_path / "schema.toml")
    assert 'level "no" is not one of' in records(editor)["has a car"]["check"]
    do(editor, "type", names=["has a car"], kind="ignore")
    assert records(editor)["has a car"]["check"] == ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_type_of_column_can_be_shown_and_left_out(case: Any, tmp_path: Path) -> None:
    editor = Editor(tb.Schema({"q": case.column}), case.frame, tmp_path / "schema.toml")
    (record,) = editor.survey()["questions"]
    assert record["check"] == ""
    assert json.dumps(record)
    do(editor, "type", names=["q"], kind="ignore")
    assert editor.schema["q"].kind == "ignore"


# ---- the server


@pytest.fixture
def running(editor: Editor) -> Iterator[Server]:
    server = Server(editor)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_the_server_sends_the_page_and_saves(running: Server, editor: Editor) -> None:
    status, page, headers = call(running, "GET", "")
    assert (status, "<title>thurbo schema</title>" in page) == (200, True)
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "<script>" not in page  # no script in the page itself
    for name in ("editor.js", "editor.css", "page.js", "page.css"):
        assert call(running, "GET", name)[0] == 200
    assert call(running, "GET", "explorer.js")[0] == 404
    body = json.dumps({"version": 0, "names": ["do you sing"], "kind": "ordinal"}).encode()
    assert call(running, "POST", "type", body)[0] == 200
    status, found, _ = call(running, "POST", "save", b"{}")
    assert (status, found["saved"]) == (200, True)
    assert tb.Schema.from_toml(editor.output)["do you sing"].kind == "ordinal"


BAD = [
    ("type", {}, "names are a list"),
    ("type", {"names": ["nobody"], "kind": "ordinal"}, "is not a question"),
    ("type", {"names": ["hours"], "kind": "answer"}, "choose a type"),
    ("type", {"names": ["hours"], "kind": ["ordinal"]}, "choose a type"),
    ("type", {"names": [["hours"]], "kind": "ordinal"}, "names are a list"),
    ("type", {"names": ["do you sing"], "kind": "binary"}, "Binary has two"),
    ("type", {"names": ["do you sing"], "kind": "banded"}, "not bands"),
    ("order", {"names": ["do you sing"], "places": [0, 1]}, "has no place"),
    ("order", {"names": ["do you sing"], "places": [0, 1, 7]}, "reload the page"),
    ("order", {"names": ["do you sing"], "places": [True, 0, 2]}, "reload the page"),
    ("order", {"names": ["hours"], "places": []}, "no order that could be changed"),
    ("missing", {"names": ["do you sing"], "places": [0, 1]}, "fewer than two"),
    ("missing", {"names": ["do you sing"], "places": "all"}, "reload the page"),
    ("missing", {"names": ["hours"], "places": [], "typed": " "}, "a code is"),
    ("missing", {"names": ["hours"], "places": [], "typed": 9}, "a code is"),
    ("group", {"columns": ["hours", "id"], "kind": "continuous"}, "belong together"),
    ("group", {"columns": ["hours", "id"], "kind": "multiselect", "name": 3}, "a name is"),
    ("group", {"columns": [], "kind": "multiselect"}, "names are a list"),
    ("ungroup", {"names": ["hours"]}, "only a question of several columns"),
    ("undo", {}, "nothing to undo"),
    ("redo", {}, "nothing to redo"),
    ("instead", {"names": ["id"]}, "nothing else is known"),
    ("confirm", {"names": 3}, "names are a list"),
]


@pytest.mark.parametrize(("change", "asked", "words"), BAD)
def test_odd_requests_are_sentences_and_change_nothing(
    running: Server, editor: Editor, change: str, asked: dict[str, Any], words: str
) -> None:
    before = editor.schema
    status, found, _ = call(running, "POST", change, json.dumps({"version": 0, **asked}).encode())
    assert (status, list(found)) == (400, ["error"])
    assert words in found["error"]
    assert editor.schema is before


@pytest.mark.parametrize("version", [None, 1, -1, "0", [0], False])
def test_a_page_that_has_seen_another_version_changes_nothing(running: Server, editor: Editor, version: Any) -> None:
    body = json.dumps({"version": version, "names": ["hours"], "kind": "ignore"}).encode()
    status, found, _ = call(running, "POST", "type", body)
    assert (status, editor.schema["hours"].kind) == (400, "continuous")
    assert "another window" in found["error"]


def test_of_requests_at_the_same_time_one_changes_the_schema(running: Server, editor: Editor) -> None:
    body = json.dumps({"version": 0, "names": ["hours"], "kind": "ignore"}).encode()
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda _: call(running, "POST", "type", body)[0], range(12)))
    assert sorted(found) == [200] + [400] * 11
    assert editor.survey()["version"] == 1


def test_a_token_a_host_and_a_kind_of_content_are_needed(running: Server) -> None:
    assert call(running, "POST", "survey", b"{}", token="wrong")[0] == 404
    assert call(running, "POST", "survey", b"{}", Host="evil.example")[0] == 404
    assert call(running, "POST", "survey", b"{}", Content_Type="text/plain")[0] == 415
    assert call(running, "POST", "survey", b"{}", Content_Length="99999999")[0] == 413
    status, found, _ = call(running, "GET", "../schema.toml")
    assert (status, found["error"]) == (
        404,
        "there is nothing here; open the address that thurbo check --edit printed",
    )


def test_a_file_that_cannot_be_written_is_said_and_nothing_is_lost(editor: Editor, tmp_path: Path) -> None:
    editor.output = tmp_path / "nowhere" / "schema.toml"
    with pytest.raises(ThurboError):
        editor.questions["save"]({})
    assert not editor.is_saved


# ---- the command


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["check", *arguments], catch_exceptions=True)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Editor]:
    """The editors that the command puts on the network, which it leaves after one correction."""
    from thurbo.app.cli import commands

    found: list[Editor] = []

    def serve(session: Editor, **_: Any) -> None:
        found.append(session)
        do(session, "type", names=["do you sing"], kind="ignore")

    monkeypatch.setattr(commands, "serve", serve)
    return found


def test_the_command_says_where_the_schema_is(served: list[Editor], tmp_path: Path) -> None:
    data = tb.write(survey(), tmp_path / "cars.csv")
    done = run(str(data), "--edit", "--no-browser")
    assert (done.exit_code, "not saved" in done.output) == (0, True)
    assert served[0].output == tmp_path / "cars.toml"
    served[0].save()
    error = run(str(data), "--edit").exception
    assert "give -s" in str(error)
    done = run(str(data), "--edit", "-s", str(tmp_path / "cars.toml"))
    assert served[1].output == tmp_path / "cars.toml"
    assert served[1]._steps[0] == served[0].schema
    assert served[1]._saved is served[1]._steps[0]
    run(str(data), "--edit", "-o", str(tmp_path / "other.toml"))
    assert served[2].output == tmp_path / "other.toml"
    assert "rename it" in str(run(str(data), "--edit", "-o", "schema.json").exception)
    assert data.read_bytes() == (tmp_path / "cars.csv").read_bytes()


def test_types_of_the_page_exist() -> None:
    assert set(ALONE) <= set(tb.Column.registered)
    assert set(TOGETHER) - {"places", "mentions"} <= set(tb.Column.registered)
