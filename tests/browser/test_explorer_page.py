"""The explorer in Chromium: lasso, compare, pin, name, undo, export, fill in; by mouse and by keyboard."""

from __future__ import annotations

import csv
from typing import Any

import pytest

from tests.browser.conftest import NASTY, Survey, Watched, serious

pytestmark = pytest.mark.browser
sync = pytest.importorskip("playwright.sync_api")


def status(page: Any, words: str) -> None:
    sync.expect(page.locator("#status")).to_contain_text(words, timeout=60_000)


def circle(page: Any, left: float, top: float, right: float, bottom: float) -> None:
    """Draw around a part of the map, given as shares of its width and height."""
    box = page.locator("#map").bounding_box()
    corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()


def test_select_name_undo_and_export(explored: Any, watched: Watched, tmp_path: Any) -> None:
    page = watched.open(explored.address)
    status(page, "1,186 rows")
    before = page.locator("#segments input").count()
    circle(page, 0.02, 0.02, 0.5, 0.98)
    status(page, "Group of")
    said = page.locator("#group-said").inner_text()
    n = int(said.split()[0].replace(",", ""))
    assert 0 < n < 1186
    assert page.locator("#group .card").count() > 20
    page.locator("#new-name").fill(f"left {NASTY}")
    page.locator("#make").click()
    assert page.locator("#segments input").last.input_value() == f"left {NASTY}"
    with page.expect_download() as found:
        page.locator("#export").click()
    found.value.save_as(tmp_path / "segments.csv")
    with open(tmp_path / "segments.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1186
    assert sum(row["segment"] == f"left {NASTY}" for row in rows) == n
    page.locator("#undo").click()
    assert page.locator("#segments input").count() == before
    assert page.locator("#undo").is_disabled()
    assert serious(page) == []
    assert page.evaluate("window.hacked") is None
    assert all(
        address.startswith(explored.address)
        for address in watched.requests
        if not address.startswith(("data:", "blob:"))
    )


def test_pins_move_every_other_answer(explored: Any, watched: Watched) -> None:
    page = watched.open(explored.address)
    status(page, "1,186 rows")
    page.locator("#tab-pins").click()
    status(page, "Nothing is pinned")
    page.locator("#pin-question").select_option("fan")
    page.locator("#pin-relation").select_option("exactly")
    page.locator("#pin-value").select_option("Yes")
    page.locator("#pin-form button").click()
    status(page, "Bars: with the pins")
    assert page.locator("#pins li").count() == 1
    assert page.locator("#pinned .card[data-name=fan]").count() == 0  # a pinned question is not predicted
    first = page.locator("#pinned .card").first
    assert first.locator("b").first.inner_text() != first.locator("small").first.inner_text()
    page.locator("#free").fill("mood = high")
    page.locator("#free-form button").click()
    status(page, "mood")  # an error is a sentence
    assert "Traceback" not in page.content()
    assert page.locator("#pins li").count() == 1
    page.locator("#pins button").click()
    status(page, "Nothing is pinned")
    assert serious(page) == []
    watched.problems = [each for each in watched.problems if "400" not in each]  # the refused pin


def test_sets_ranges_and_orders_are_pinned_by_keyboard(explored_kinds: Any, watched: Watched) -> None:
    page = watched.open(explored_kinds.address)
    status(page, "90 rows")
    page.locator("#tab-group").focus()
    page.keyboard.press("ArrowRight")
    status(page, "Nothing is pinned")
    answers = (
        ("trust", "between", {"#pin-value": "none", "#pin-second": "some"}, "between none and some"),
        ("party", "one of", {"#pin-several": ["Blue", "Red"]}, "one of Blue, Red"),
        ("issues", "above", {"#pin-value": "tax", "#pin-second": "health"}, "tax above health"),
        ("media", "not selected", {"#pin-value": "tv"}, "not selected tv"),
    )
    for n, (question, relation, chosen, words) in enumerate(answers):
        page.locator("#pin-question").select_option(question)
        page.locator("#pin-relation").select_option(relation)
        for control, value in chosen.items():
            page.locator(control).select_option(value)
        page.locator("#pin-form button").focus()
        page.keyboard.press("Enter")
        sync.expect(page.locator("#pins li")).to_have_count(n + 1)
        assert words in page.locator("#pins li").last.inner_text()
        assert page.locator(f"#pinned .card[data-name={question}]").count() == 0
    page.locator("#pin-question").select_option("height")
    page.locator("#pin-relation").select_option("at least")
    page.locator("#pin-number").fill("tall")
    page.keyboard.press("Enter")
    status(page, "is not a number")
    page.locator("#pin-number").fill("180")
    page.keyboard.press("Enter")
    sync.expect(page.locator("#pins li")).to_have_count(5)
    status(page, "Bars: with the pins")
    assert serious(page) == []
    watched.problems = [each for each in watched.problems if "400" not in each]  # the refused number


def test_ratings_change_what_is_recommended(explored_lists: Any, watched: Watched) -> None:
    page = watched.open(explored_lists.address)
    status(page, "120 rows")
    assert not page.locator("#tab-pins").is_visible()  # there is no question to pin
    assert not page.locator("#tab-one").is_visible()
    page.locator("#segments button").first.click()
    status(page, "Group of")
    assert "Mean scores, 2 to 5" in page.locator("#group .card").inner_text()
    page.locator("#tab-group").focus()
    page.keyboard.press("ArrowRight")
    status(page, "No ratings yet")
    for item, stars in (("war 0", "5"), ("love 0", "2"), (NASTY, "4")):
        page.locator("#item").fill(item)
        page.locator("#rating").select_option(stars)
        page.locator("#rating").focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        sync.expect(page.locator("#rated li").last).to_contain_text(f"{item}: {stars}")
    status(page, "3 ratings")
    assert page.locator("#best th").first.inner_text().startswith("war")
    assert page.locator("#moved-items li").count() == 3
    page.locator("#item").fill("Heat")
    page.locator("#rate-form button").click()
    status(page, "not an item that the model knows")
    assert page.locator("#rated li").count() == 3
    page.locator("#rated button").first.click()
    status(page, "2 ratings")
    assert page.evaluate("window.hacked") is None
    assert serious(page) == []
    watched.problems = [each for each in watched.problems if "400" not in each]  # the unknown item


def test_one_respondent_and_what_moved_the_guess(explored: Any, watched: Watched) -> None:
    page = watched.open(explored.address, color_scheme="dark")
    status(page, "1,186 rows")
    page.locator("#tab-group").focus()
    page.keyboard.press("ArrowLeft")  # by keyboard to the last tab
    status(page, "0 answers filled in")
    page.locator("#target").select_option("fan_star_trek")
    page.get_by_label("fan", exact=True).select_option("Yes")
    status(page, "1 answers filled in")
    sync.expect(page.locator("#moved li")).to_have_count(1)
    page.get_by_label("gender", exact=True).select_option("Male")
    sync.expect(page.locator("#moved li")).to_have_count(2)
    assert page.locator("#predicted .card[data-name=gender]").count() == 0
    assert serious(page) == []


def test_a_segment_is_selected_by_keyboard(explored: Any, watched: Watched) -> None:
    page = watched.open(explored.address, viewport={"width": 390, "height": 844})
    status(page, "1,186 rows")
    page.locator("#segments button").first.focus()
    page.keyboard.press("Enter")
    status(page, "Group of")
    name = page.locator("#segments input").first
    name.focus()
    name.fill("first")
    page.keyboard.press("Tab")
    assert page.locator("#undo").is_enabled()
    page.locator("#undo").focus()
    page.keyboard.press("Enter")
    assert page.locator("#segments input").first.input_value() != "first"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_labels_stay_text_in_the_explorer(nasty_survey: Survey, watched: Watched) -> None:
    import threading

    from thurbo.app.explorer import Session
    from thurbo.app.server import Server

    server = Server(Session(nasty_survey.model, nasty_survey.frame, title=NASTY))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = watched.open(server.address)
    status(page, "200 rows")
    page.locator("#segments button").first.click()
    status(page, "Group of")
    page.locator("#tab-pins").click()
    status(page, "Nothing is pinned")
    assert page.locator("#title").inner_text() == NASTY
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script, h1 script").count() == 0
    server.shutdown()
    server.server_close()
