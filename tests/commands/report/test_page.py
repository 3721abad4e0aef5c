from __future__ import annotations

import base64
import hashlib
import re

import pytest
from jinja2 import UndefinedError

from teachaugment.commands.report.mistakes import Mistakes, cells, pairs
from teachaugment.commands.report.numbers import Settings
from teachaugment.commands.report.page import TEMPLATES, Page, Section, render
from teachaugment.show.charts import Series, line_chart
from teachaugment.show.table import Table

NASTY = '<img src=x onerror="alert(1)">'
ESCAPED = "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;"


def test_every_text_of_a_page_stays_text():
    section = Section("key", NASTY, "table.html", Table("", ["", NASTY], [[NASTY, NASTY]]), NASTY)
    text = render(Page(NASTY, NASTY, [section], NASTY, [(NASTY, NASTY)], NASTY, NASTY))
    assert "<img" not in text
    assert text.count(ESCAPED) == 14  # title, heading, lead, number, note, warning, link, section, table, foot


def test_names_in_a_chart_stay_text():
    chart = line_chart(NASTY, [Series(NASTY, [(1, 2.0)])])
    text = render(Page("", "", [Section("curves", "", "curves.html", [chart])], ""))
    assert "<img" not in text and text.count("&lt;img src=x") == 4  # caption, legend, and two in the words


def test_every_cell_of_a_confusion_matrix_says_what_it_counts():
    classes = ["cat", "<dog>"]
    content = Mistakes("", [], classes, cells([[3, 1], [0, 2]], classes), [])
    text = render(Page("", "", [Section("mistakes", "", "mistakes.html", content)], ""))
    assert "cat taken for &lt;dog&gt;: 1 of 4" in text and "<dog>" not in text
    assert re.findall(r'--share:([\d.]+)" title', text) == ["0.750", "0.250", "0.000", "1.000"]
    assert re.findall(r'class="(right|wrong)', text) == ["right", "wrong", "wrong", "right"]


def test_a_class_without_images_has_no_share():
    assert [cell.share for cell in cells([[0, 0], [0, 2]], ["a", "b"])[0]] == [0, 0]


def test_of_many_classes_the_most_frequent_mistakes_are_listed():
    assert pairs([[5, 3, 0], [1, 6, 0], [0, 0, 9]], ["a", "b", "c"]) == [
        ["a", "taken for b", "3 of 8"],
        ["b", "taken for a", "1 of 7"],
    ]


def test_a_section_without_content_is_left_out_with_its_link():
    empty, full = (
        Section(key, key, "settings.html", content) for key, content in (("no", None), ("yes", Settings([], [])))
    )
    text = render(Page("", "", [empty, full], ""))
    assert 'href="#yes"' in text and 'id="yes"' in text and '"no"' not in text and "#no" not in text


def test_what_a_template_asks_for_must_be_there():
    with pytest.raises(UndefinedError):
        render(Page("", "", [Section("settings", "", "settings.html", object())], ""))


def test_only_our_own_script_may_run():
    text = render(Page("", "", [], ""))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    (script,) = re.findall(r"<script>(.*)</script>", text, re.DOTALL)
    assert script == (TEMPLATES / "script.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]
