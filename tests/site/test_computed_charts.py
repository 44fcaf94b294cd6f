"""Charts that compute in the page: for inputs of the reader's own they show what the library computes.

Needs `make book` and Chromium, as conftest.py says.
"""

import pytest
import torch
from browser import opened
from playwright.sync_api import Page

from transformer_lib import scaled_dot_product_attention

pytestmark = pytest.mark.slow

CHART = "[...document.querySelectorAll('.vega-chart')].find(chart => chart.textContent.includes(title))"
MOVE = f"""([title, label, value]) => {{
  const chart = {CHART};
  const binding = [...chart.querySelectorAll('.vega-bind')].find(one => one.textContent.startsWith(label));
  const control = binding.querySelector('input');
  if (control.type === 'checkbox') {{
    if (control.checked !== value) control.click();
  }} else {{
    control.value = value;
    control.dispatchEvent(new Event('input', {{ bubbles: true }}));
  }}
}}"""
WRITTEN = f"""title => {{
  const chart = {CHART};
  return [...chart.querySelectorAll('svg .mark-text.role-mark text')].map(text => text.textContent.replace('−', '-'));
}}"""


def shown(page: Page, title: str, settings: dict[str, float | bool], expected: list[str]) -> list[str]:
    """The texts of the chart's marks, once its controls are set and it had time to draw."""
    for label, value in settings.items():
        page.evaluate(MOVE, [title, label, value])
    for _ in range(50):
        if (found := page.evaluate(WRITTEN, title)) == expected:
            break
        page.wait_for_timeout(100)
    return found


def test_attention_for_a_query_of_the_readers_own(page: Page, origins: dict[str, str]) -> None:
    title = "The four steps of attention"
    opened(page, f"{origins['http']}book/attention.html")
    key = torch.tensor([[0.0, 1], [1, 0], [0, 0]])
    value = torch.tensor([[0.0, 4], [7, 0], [0, 0]])
    for first, second, root in ((2.0, 2.0, 2), (4.0, -3.5, 2), (-1.5, 0.5, 2), (4.0, -3.5, 64)):
        query = torch.tensor([[first, second]])
        # The library divides by the root of the two numbers of a key.
        output, weights = scaled_dot_product_attention(query * (2 / root) ** 0.5, key, value)
        dots = (query @ key.T)[0]
        expected = [f"{dot:.1f}" for dot in dots] + [f"{dot / root**0.5:.2f}" for dot in dots]
        expected += [f"{weight:.2f}" for weight in weights[0]] + [f"{number:.1f}" for number in output[0]]
        settings = {"Query, asks for ones": first, "Query, asks for tens": second, "Under the root of step 2": root}
        assert shown(page, title, settings, expected) == expected
