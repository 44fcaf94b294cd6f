"""The built site where JavaScript is switched off: what still stands on a page still works.

Needs `make book` and Chromium, as conftest.py says.
"""

import pytest
from browser import PAGES
from playwright.sync_api import Page

pytestmark = pytest.mark.slow

CONTROLS = "button, input, select, textarea, [role=button], [onclick], [tabindex]:not(a, div.cell_output, pre)"
DEAD = f"""() => [...document.querySelectorAll('{CONTROLS}')].filter(control =>
    control.checkVisibility({{ visibilityProperty: true }}) && !control.matches('.dropdown-toggle')
).map(control => control.outerHTML.slice(0, 120))"""


@pytest.mark.deep
def test_no_button_is_dead(silent: Page, origins: dict[str, str]) -> None:
    dead = {}
    for name in PAGES:
        silent.goto(origins["http"] + name, wait_until="load")
        assert silent.evaluate("matchMedia('(scripting: none)').matches")
        for width in (1280, 390):
            silent.set_viewport_size({"width": width, "height": 900})
            dead[name, width] = silent.evaluate(DEAD)
    assert {place: found for place, found in dead.items() if found} == {}


def test_formulas_stand_in_the_books_font_and_menus_open_by_pointer_and_by_keyboard(
    silent: Page, origins: dict[str, str]
) -> None:
    silent.set_viewport_size({"width": 1280, "height": 900})
    silent.goto(origins["http"] + "book/attention.html", wait_until="load")
    formulas = silent.locator(".math.notranslate")
    assert formulas.count() > 20
    assert formulas.locator("math").count() == formulas.count()
    assert "\\" not in "".join(formulas.all_text_contents()), "TeX"
    assert silent.evaluate("document.fonts.ready.then(() => document.fonts.check('16px \"STIX Two Math\"'))")
    for menu in silent.locator(".dropdown:has(> .dropdown-toggle)").all():
        link = menu.locator(".dropdown-menu a").first
        assert not link.is_visible()
        menu.locator(".dropdown-toggle").hover()
        assert link.is_visible()
        silent.mouse.move(0, 600)
        menu.locator(".dropdown-toggle").focus()
        assert link.is_visible()
        silent.keyboard.press("Tab")
        assert link.evaluate("link => link === document.activeElement")
        silent.locator("body").evaluate("() => document.activeElement.blur()")


@pytest.mark.parametrize(
    ("name", "place"),
    [("live", "translator"), ("encoder_decoder", "stepper"), ("index", "training"), ("common_mistakes", "training")],
)
def test_a_place_that_computes_says_what_it_needs_and_shows_no_button(
    silent: Page, origins: dict[str, str], name: str, place: str
) -> None:
    silent.goto(f"{origins['http']}book/{name}.html", wait_until="load")
    assert "JavaScript" in silent.inner_text(f"#live-{place} noscript")
    assert silent.locator(f"#live-{place} button:visible").count() == 0
