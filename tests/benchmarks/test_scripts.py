"""The scripts themselves, run as the documents say, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import marked_place
import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks" / "results" / "cpu-2cores.json"


def test_only_what_stands_between_the_marks_is_replaced(tmp_path):
    document = tmp_path / "document.md"
    document.write_text("before\n<!-- model -->\nold\n<!-- /model -->\nafter <!-- bench -->\n")
    for content in ("first", "second"):
        marked_place.write_between_marks(document, "model", content)
    assert document.read_text() == "before\n<!-- model -->\n\nsecond\n\n<!-- /model -->\nafter <!-- bench -->\n"


@pytest.mark.parametrize("text", ["nothing", "<!-- model -->", "<!-- /model -->\n<!-- model -->"])
def test_a_document_without_both_marks_in_order_is_left_alone(tmp_path, text):
    document = tmp_path / "document.md"
    document.write_text(text)
    with pytest.raises(SystemExit, match="needs the lines <!-- model --> and <!-- /model -->"):
        marked_place.write_between_marks(document, "model", "content")
    assert document.read_text() == text


def test_the_tables_of_a_benchmark_are_written_into_a_document(tmp_path):
    document = tmp_path / "document.md"
    document.write_text("<!-- bench -->\n<!-- /bench -->\n")
    script = ROOT / "benchmarks" / "write_tables.py"
    subprocess.run([sys.executable, str(script), str(RESULT), str(document)], check=True)
    assert "### Targets" in document.read_text() and document.read_text().endswith("<!-- /bench -->\n")


def test_the_tables_in_the_documentation_are_those_of_the_result_it_names():
    import write_tables

    shown = write_tables.show(write_tables.read(str(RESULT)), as_markdown=True)
    assert shown in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
