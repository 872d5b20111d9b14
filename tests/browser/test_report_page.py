"""The report in Chromium: it runs without errors or requests, by keyboard, on a phone, in the dark and on paper."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import NASTY, Survey, Watched, serious

pytestmark = pytest.mark.browser
sync = pytest.importorskip("playwright.sync_api")

PHONE = {"viewport": {"width": 390, "height": 844}}
# Words that stand on two lines, in elements that are shown.
SPLIT_WORDS = """() => {
  const found = [], walker = document.createTreeWalker(document.querySelector('.page'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!parent.offsetParent || parent.closest('svg, script, style, .visually-hidden')) continue;
    for (const match of node.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      const range = document.createRange();
      range.setStart(node, match.index); range.setEnd(node, match.index + match[0].length);
      const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (tops.size > 1) found.push(match[0]);
    }
  }
  return found;
}"""


@pytest.mark.parametrize("settings", [{}, {"color_scheme": "dark"}, PHONE], ids=["desktop", "dark", "phone"])
def test_the_page_is_quiet_and_within_reach_of_everyone(
    demo_survey: Survey, watched: Watched, settings: dict[str, Any]
) -> None:
    page = watched.open(demo_survey.page.as_uri(), **settings)
    assert watched.requests == [demo_survey.page.as_uri()]  # nothing but the file itself
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(SPLIT_WORDS) == []
    assert serious(page) == []
    if settings is PHONE:
        assert page.evaluate("document.documentElement.scrollHeight") < 13_000
        assert page.locator(".card[open]").count() == 0  # folded, with a bar each
        page.locator("#fold").click()
        assert page.locator(".card:not([open])").count() == 0


def test_markup_in_labels_stays_text(nasty_survey: Survey, watched: Watched) -> None:
    page = watched.open(nasty_survey.page.as_uri())
    assert page.title() == NASTY
    assert page.locator("h1").inner_text() == NASTY
    for chip in page.locator(".chips label").all():
        chip.click()
    page.locator(".chips label").first.click()
    for place in ((0.5, 0.5), (0.3, 0.4), (0.7, 0.6)):
        hover(page, "#dots", *place)
    hover(page, "#heat", 0.7, 0.5)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, iframe, b b").count() == 0
    assert watched.requests == [nasty_survey.page.as_uri()]
    assert serious(page) == []


def hover(page: Any, what: str, x: float, y: float) -> None:
    found = page.locator(what)
    found.scroll_into_view_if_needed()
    box = found.bounding_box()
    page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])


def test_hover_tells_segments_and_relations(demo_survey: Survey, watched: Watched) -> None:
    page = watched.open(demo_survey.page.as_uri())
    names = page.locator(".segment h3").all_inner_texts()
    mark = page.locator(".label circle").first
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator("#tip").is_visible()
    told = page.locator("#tip p").first.inner_text()
    assert any(name.lstrip("0123456789\n ") in told for name in names)
    assert "Row" not in told  # no single row
    page.keyboard.press("Escape")
    assert not page.locator("#tip").is_visible()
    hover(page, "#heat", 0.75, 0.3)
    assert "of the uncertainty" in page.locator("#tip").inner_text()
    page.mouse.move(2, 2)
    assert not page.locator("#tip").is_visible()


def test_everything_works_by_keyboard(demo_survey: Survey, nasty_survey: Survey, watched: Watched) -> None:
    page = watched.open(demo_survey.page.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.hash") == "#findings"
    page.locator(".contents a[href='#map']").focus()
    page.keyboard.press("Enter")
    sync.expect(page.locator("#map h2")).to_be_in_viewport()
    page.locator("#by-segments").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".panel-0").is_visible()
    assert not page.locator(".panel-segments").is_visible()
    card = page.locator(".card").first
    card.locator("summary").focus()
    page.keyboard.press("Enter")
    assert card.get_attribute("open") is not None
    assert card.locator(".bars").is_visible()
    page.locator("#find").focus()
    page.keyboard.type("yoda")
    assert 0 < page.locator(".card:visible").count() < page.locator(".card").count()
    assert "of" in page.locator("#found").inner_text()
    # With rows, the points of the map are reached by arrows.
    rows = watched.open(nasty_survey.page.as_uri())
    rows.locator("#dots").focus()
    rows.keyboard.press("ArrowRight")
    assert rows.locator("#tip").inner_text().startswith("Row ")


def test_a_page_of_lists_tells_what_is_liked_together_and_ranked_right(list_survey: Survey, watched: Watched) -> None:
    page = watched.open(list_survey.page.as_uri())
    assert watched.requests == [list_survey.page.as_uri()]
    rows = page.locator(".together tbody tr")
    assert rows.count() == 12
    for row in rows.all()[:6]:
        item, near = row.locator("th").inner_text(), row.locator("td").nth(1).inner_text()
        if not item.startswith("<"):
            assert near.startswith(item.split()[0])  # films of the same kind
    assert page.locator(".catalogue svg text").count() >= 1  # names that do not cover each other
    assert "the better one is predicted higher" in page.locator("#trust").inner_text()
    assert "are put in the right order" in page.locator("#findings").inner_text()
    assert page.evaluate("window.hacked") is None
    assert serious(page) == []


def test_the_page_prints_on_six_sheets(demo_survey: Survey, watched: Watched, tmp_path: Path) -> None:
    page = watched.open(demo_survey.page.as_uri())
    sheet = page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True, print_background=True)
    n_pages = len(re.findall(rb"/Type\s*/Page\b", sheet))
    assert 1 < n_pages <= 6
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 710, "height": 1000})  # about the width of A4 within its margins
    assert page.evaluate(SPLIT_WORDS) == []
    headings = {text.strip() for text in page.locator("h2, h3").all_inner_texts() if text.strip()}
    lines = [[line.strip() for line in each.splitlines() if line.strip()] for each in texts_of(tmp_path / "report.pdf")]
    assert sum("Findings" in each for each in lines) == 1  # the pages are read
    assert not headings & {each[-1] for each in lines if each}  # no heading ends a page


def texts_of(sheet: Path) -> list[str]:
    """The text of each page."""
    import pypdfium2

    document = pypdfium2.PdfDocument(sheet)
    texts = [document[place].get_textpage().get_text_range() for place in range(len(document))]
    document.close()
    return texts


def test_the_page_is_whole_without_scripts(demo_survey: Survey, watched: Watched) -> None:
    page = watched.open(demo_survey.page.as_uri(), java_script_enabled=False)
    page.locator(".card summary").first.click()
    assert page.locator(".card .bars").first.is_visible()
    page.locator("label[for='by-0']").click()
    assert page.locator(".panel-0").is_visible()
    assert page.locator(".findings li").count() >= 4


def test_the_page_is_short_and_has_full_questions_on_hover_and_in_cards(demo_survey: Survey, watched: Watched) -> None:
    page = watched.open(demo_survey.page.as_uri())
    words = (
        "document.querySelector('.page').innerText.split(/\\s+/).filter(word => /[\\p{L}\\p{N}]/u.test(word)).length"
    )
    assert page.evaluate(words) < 1800
    schema = demo_survey.model.schema_
    cards = page.locator(".card")
    for place, name in enumerate(schema.modelled):
        head = cards.nth(place).locator(".text")
        full = f"{name}: {schema.titles[name]}" if name in schema.titles else name
        assert head.get_attribute("title") == full
        if cards.nth(place).locator("xpath=..").get_attribute("class") == "cards of-grid":  # its heading has the stem
            assert head.inner_text() in full
        else:
            assert head.inner_text().startswith(schema.display_names[name])
    cards.first.locator("summary").click()
    assert cards.first.locator(".asked").inner_text() == f"seen_any: {schema.titles['seen_any']}"
