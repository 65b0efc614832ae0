"""Pages in a real browser: keyboard, dialogs, menus, small screens; never a complaint in the console."""

import re

import pytest
from playwright.sync_api import expect

from tests.ui.live_server import Captured
from tests.ui.stage import Stage, in_browser

# The mark has the database made; the pages were rendered before the browser starts.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db]


def _switch(captured: dict[str, Captured]) -> str:
    return next(path for path in captured if re.fullmatch(r"/inventory/switches/[0-9a-f-]{36}/", path))


@in_browser
def test_no_page_scrolls_sideways_or_complains_on_any_screen(stage: Stage, captured: dict[str, Captured]) -> None:
    for path in captured:
        if path.startswith("dialog:"):
            continue
        page = stage.open(path)
        for width in (1440, 768, 375):
            page.set_viewport_size({"width": width, "height": 900})
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is {wide} px too wide at {width}"
        page.context.close()
    assert not stage.faults


@in_browser
def test_keys_search_go_and_explain_themselves(stage: Stage) -> None:
    page = stage.open("/agents/")
    page.keyboard.press("/")
    expect(page.locator("[data-search]")).to_be_focused()
    page.keyboard.type("g p?")
    assert page.locator("[data-search]").input_value() == "g p?", "keys are letters while somebody types"
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page).to_have_url(re.compile(r"/pools/$"))


@in_browser
def test_skip_link_is_the_first_stop_and_leads_to_the_content(stage: Stage) -> None:
    page = stage.open("/pools/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


@in_browser
def test_delete_asks_in_a_dialog_that_can_be_left(stage: Stage, captured: dict[str, Captured]) -> None:
    page = stage.open(_switch(captured))
    page.get_by_role("link", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Please confirm")
    expect(dialog.get_by_text("Delete switch leaf-1?")).to_be_visible()
    expect(dialog.get_by_label("Reason")).to_be_focused()
    dialog.get_by_role("link", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert page.url.endswith(_switch(captured))


@in_browser
def test_dialog_that_cannot_be_fetched_becomes_the_page(stage: Stage, captured: dict[str, Captured]) -> None:
    path = _switch(captured)
    page = stage.open(path)
    page.route(
        "**/delete/", lambda route: route.abort() if route.request.resource_type == "fetch" else route.continue_()
    )
    page.get_by_role("link", name="Delete").click()
    expect(page).to_have_url(re.compile(r"/delete/$"))
    expect(page.get_by_text("Delete switch leaf-1?")).to_be_visible()


@in_browser
def test_capacity_shows_only_the_field_of_the_chosen_way(stage: Stage, captured: dict[str, Captured]) -> None:
    page = stage.open(next(path for path in captured if path.endswith("/edit/")))
    share, size = page.locator("[name=dram-capacity_percent]"), page.locator("[name=dram-capacity_bytes]")
    expect(share).to_be_visible()
    expect(size).to_be_hidden()
    page.locator("[name=dram-capacity_mode][value=bytes]").check()
    expect(share).to_be_hidden()
    expect(size).to_be_visible()
    expect(page.locator("[name=flash-capacity_percent]")).to_be_visible()


@in_browser
def test_small_screen_opens_the_navigation_as_a_sheet(stage: Stage) -> None:
    stage.width = 375
    page = stage.open("/pools/")
    link = page.get_by_role("link", name="Rollouts")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(link).to_be_visible()
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()


@in_browser
def test_account_menu_closes_on_escape_and_on_a_click_elsewhere(stage: Stage) -> None:
    page = stage.open("/pools/")
    item = page.get_by_role("button", name="Sign out")
    for leave in (lambda: page.keyboard.press("Escape"), lambda: page.locator("h1").click()):
        page.locator("summary[aria-label='Your account']").click()
        expect(item).to_be_visible()
        leave()
        expect(item).to_be_hidden()
