"""The page of `thurbo check --edit` in Chromium: every correction, by mouse and by keyboard, saved and reloaded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import thurbo as tb
from tests.browser.conftest import NASTY, QUOTED, Watched, serious
from tests.test_editor import LEVELS, schema, survey
from thurbo.app.editor import Editor
from thurbo.app.server import Server

pytestmark = pytest.mark.browser
sync = pytest.importorskip("playwright.sync_api")


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    return Editor(schema(), survey(), tmp_path / "schema.toml", title="cars")


@pytest.fixture
def address(editor: Editor) -> Iterator[str]:
    server = Server(editor)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.address
    server.shutdown()
    server.server_close()


def status(page: Any, words: str) -> None:
    sync.expect(page.locator("#status")).to_contain_text(words)


def pick(page: Any, name: str) -> None:
    page.locator(f"#list button[data-name='{name}']").click()
    sync.expect(page.locator("#question")).to_have_text(
        {"reads: books": "Books", "reads: news": "News"}.get(name, name)
    )


def answers(page: Any) -> list[str]:
    found: list[str] = page.locator(".answers").first.locator("li > span:first-of-type").all_inner_texts()
    return found


def test_change_a_type_drag_an_order_undo_save_and_reload(address: str, editor: Editor, watched: Watched) -> None:
    page = watched.open(address)
    status(page, "80 rows, 8 questions, 1 to check")
    assert page.locator("#list h2").first.inner_text() == "Please check (1)"  # questionable ones come first
    pick(page, "do you sing")
    page.get_by_role("button", name="These answers have an order").click()
    status(page, "2 questions: ordered answers")
    assert answers(page) == LEVELS
    handle, below = page.locator(".handle").nth(0), page.locator(".answers li").nth(2)
    start, end = handle.bounding_box(), below.bounding_box()
    page.mouse.move(start["x"] + 5, start["y"] + 5)
    page.mouse.down()
    page.mouse.move(start["x"] + 5, end["y"] + end["height"] / 2, steps=8)
    page.mouse.up()
    status(page, "sometimes < often < never")
    assert [editor.schema[name].labels for name in ("do you sing", "do you dance")] == [
        ("sometimes", "often", "never")
    ] * 2
    assert answers(page) == ["sometimes", "often", "never"]
    page.locator("#undo").click()
    status(page, "Undone")
    assert answers(page) == LEVELS
    page.locator("#redo").click()
    status(page, "Done again")
    page.locator("#save").click()
    status(page, f"Saved to {editor.output}")
    sync.expect(page.locator("#save")).to_be_disabled()
    assert tb.Schema.from_toml(editor.output) == editor.schema
    page.reload()
    status(page, "80 rows")
    sync.expect(page.locator("#question")).to_contain_text("do you sing")  # the question that was on show
    assert answers(page) == ["sometimes", "often", "never"]
    sync.expect(page.locator("#save")).to_be_disabled()
    assert serious(page) == []
    assert all(each.startswith(address) for each in watched.requests if not each.startswith("data:"))


def test_everything_works_by_keyboard(address: str, editor: Editor, watched: Watched) -> None:
    page = watched.open(address)
    status(page, "80 rows")
    keys = page.keyboard
    keys.press("/")
    keys.type("sing")
    sync.expect(page.locator("#list li")).to_have_count(1)
    keys.press("Enter")
    sync.expect(page.locator("#question")).to_contain_text("do you sing")
    keys.press("ArrowRight")
    sync.expect(page.locator("#type")).to_be_focused()
    page.locator("#type").select_option("ordinal")  # by keyboard: O
    status(page, "ordered answers")
    sync.expect(page.locator("#type")).to_be_focused()  # still, although the page was drawn again
    page.locator(".handle").first.focus()
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    sync.expect(page.locator("#said")).to_contain_text("never is number 3 of 3")
    keys.press("Enter")
    status(page, "sometimes < often < never")
    assert editor.schema["do you dance"].labels == ("sometimes", "often", "never")
    sync.expect(page.locator(".handle").nth(2)).to_be_focused()
    keys.press("ArrowUp")
    keys.press("Control+s")  # what was moved is sent first
    status(page, "Saved to")
    assert editor.schema["do you sing"].labels == ("sometimes", "never", "often")
    assert tb.Schema.from_toml(editor.output) == editor.schema
    keys.press("Control+z")
    status(page, "Undone")
    keys.press("Control+y")
    status(page, "Done again")
    page.locator(".answers button", has_text="Not an answer").first.focus()
    keys.press("Space")
    status(page, "sometimes counted as missing")
    assert editor.schema["do you sing"].missing == (("sometimes", "sometimes"),)
    page.locator("#search").focus()
    keys.press("Escape")
    page.locator("#list [aria-current]").focus()
    before = page.locator("#question").inner_text()
    keys.press("ArrowDown")
    assert page.locator("#question").inner_text() != before
    assert serious(page) == []


def test_missing_codes_are_switched_and_typed(address: str, editor: Editor, watched: Watched) -> None:
    page = watched.open(address)
    pick(page, "kind of car")
    page.locator(".answers li", has_text="other").get_by_role("button").click()
    status(page, "other counted as missing")
    assert answers(page) == ["new", "old"]
    page.locator(".answers .gone").get_by_role("button").click()
    status(page, "nothing counted as missing")
    assert answers(page) == ["new", "old", "other"]
    pick(page, "hours")
    page.locator("#code").fill("99")
    page.keyboard.press("Enter")
    status(page, "99 counted as missing")
    assert editor.schema["hours"].missing == (("99", "99"),)
    assert page.locator(".answers .gone").inner_text().startswith("99")


def test_a_text_names_a_question(address: str, editor: Editor, watched: Watched) -> None:
    page = watched.open(address)
    status(page, "80 rows")
    pick(page, "kind of car")
    page.get_by_text("Change the text").click()
    page.locator("#text").fill("Which make is your car?")
    page.keyboard.press("Enter")
    sync.expect(page.locator("#question")).to_have_text("Which make is your car?")
    sync.expect(page.locator("#list [aria-current] > span").first).to_have_text("Which make is your car?")
    assert editor.schema.titles["kind of car"] == "Which make is your car?"
    assert serious(page) == []


def test_columns_are_grouped_and_divided(address: str, editor: Editor, watched: Watched) -> None:
    page = watched.open(address)
    status(page, "80 rows")
    assert not page.locator("#together").is_visible()
    for name in ("reads: books", "reads: news"):
        page.locator(f"#list li:has(button[data-name='{name}']) input").check()
    sync.expect(page.locator("#n-selected")).to_have_text("2 selected")
    page.locator("#group-kind").select_option("multiselect")
    page.locator("#group-name").fill("reading")
    page.locator("#together button", has_text="Group").click()
    status(page, "2 columns are one question, “reading”")
    sync.expect(page.locator("#question")).to_have_text("reading")
    assert page.locator(".members li").all_inner_texts() == ["books reads: books", "news reads: news"]
    assert editor.schema["reading"].labels == ("books", "news")
    assert not page.locator("#together").is_visible()
    assert serious(page) == []
    page.get_by_role("button", name="Divide into its columns").click()
    status(page, "is divided")
    assert editor.schema.names == schema().names


def test_what_is_selected_while_the_server_answers_stays_selected(
    address: str, editor: Editor, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, quick = threading.Event(), Editor._corrected

    def slow(self: Editor, *asked: Any) -> dict[str, Any]:
        answer.wait(30)
        return quick(self, *asked)

    monkeypatch.setattr(Editor, "_corrected", slow)
    page = watched.open(address)
    tick = "#list li:has(button[data-name='{}']) input"
    for name in ("reads: books", "reads: news"):
        page.locator(tick.format(name)).check()
    page.locator("#together button", has_text="Group").click()
    page.locator(tick.format("hours")).check()
    answer.set()
    status(page, "2 columns are one question")
    assert page.locator("#n-selected").inner_text() == "1 selected"
    assert page.locator(tick.format("hours")).is_checked()
    page.locator("#together button", has_text="Group").click()  # of one column, which is refused
    status(page, "give the column two values")
    sync.expect(page.locator("#n-selected")).to_have_text("1 selected")
    watched.problems = [each for each in watched.problems if "400" not in each]  # the refused request


def test_a_doubtful_type_is_changed_or_confirmed_with_one_click(address: str, editor: Editor, watched: Watched) -> None:
    page = watched.open(address)
    sync.expect(page.locator("#question")).to_have_text("hours")  # the one to check is on show
    page.get_by_role("button", name="Change to: Ordered answers").click()
    status(page, "ordered answers")
    assert editor.schema["hours"].kind == "ordinal"
    page.locator("#undo").click()
    status(page, "Undone")
    page.get_by_role("button", name="It is right").click()
    status(page, "confirmed")
    page.locator("#undo").click()
    status(page, "Undone")
    page.locator("#list li:has(button[data-name=hours]) input").check()
    page.locator("#right").click()
    status(page, "confirmed")
    assert page.locator("#list h2").first.inner_text().startswith("Questions")


def test_an_error_is_a_sentence_and_the_page_shows_what_is_true(address: str, editor: Editor, watched: Watched) -> None:
    page = watched.open(address)
    pick(page, "do you sing")
    page.locator("#type").select_option("binary")
    status(page, "Binary has two")
    assert page.locator("#type").input_value() == "categorical"
    other = watched.open(address)
    pick(other, "hours")
    other.locator("#type").select_option("ignore")
    status(other, "leave out")
    page.locator("#type").select_option("ordinal")
    status(page, "reload the page")
    assert editor.schema["do you sing"].kind == "categorical"
    watched.problems = [each for each in watched.problems if "400" not in each]  # the refused requests


def test_markup_in_names_and_answers_stays_text(tmp_path: Path, watched: Watched) -> None:
    table = {NASTY: [QUOTED, NASTY, "a"] * 20, f"{QUOTED}'": ["'\"", "b"] * 30}
    editor = Editor(tb.Schema.infer(table), table, tmp_path / f"a'{'b'}.toml", title=NASTY)
    server = Server(editor)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = watched.open(server.address)
    status(page, "60 rows, 2 questions")
    page.locator("#list button").nth(1).click()
    page.locator("#list button").nth(0).click()
    assert NASTY in answers(page)
    assert page.title() == f"Schema of {NASTY}"
    assert page.evaluate("window.hacked") is None
    assert page.locator("script").count() == 2
    server.shutdown()
    server.server_close()


def test_on_a_telephone_the_list_and_the_question_take_turns(address: str, watched: Watched) -> None:
    page = watched.open(address, viewport={"width": 400, "height": 800})
    status(page, "80 rows")
    assert not page.locator("#detail").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    pick(page, "kind of car")
    assert not page.locator("#list").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert serious(page) == []
    page.locator("#back").click()
    sync.expect(page.locator("#list [aria-current]")).to_be_focused()
