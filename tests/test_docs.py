"""The pages under docs/ are current, and what they show runs."""

import re
from pathlib import Path

import make_docs
import pytest
from peers import CASES

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["tour.md", "adding-a-family.md"])
def test_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S)
    assert len(blocks) >= 3
    session: dict = {"__name__": page}
    for block in blocks:
        exec(compile(block, page, "exec"), session)


def test_lines_page_is_current():
    assert (DOCS / "lines.md").read_text() == make_docs.lines()


def test_results_page_is_current():
    assert (DOCS / "results.md").read_text() == make_docs.results()


def test_parity_page_has_every_case_within_the_bound():
    rows = [
        line for line in (DOCS / "parity.md").read_text().splitlines() if line.startswith("| ")
    ][1:]
    cells = {tuple(c.strip() for c in row.strip("|").split("|")[:2]): row for row in rows}
    assert set(cells) == {(case.name, case.layout) for case in CASES}
    for row in rows:
        figures = [float(x) for x in re.findall(r"\d+e[+-]\d+", row)]
        assert figures and max(figures) <= 1e-5 and row.rstrip().endswith("yes |")


def model_side():
    return int(re.search(r"\*\*together\*\* \| \*\*(\d+)\*\*", make_docs.lines()).group(1))


@pytest.mark.xfail(
    strict=True,
    reason="2,382 code lines before loading from elsewhere came: two rounds of shortening stopped there",
)
def test_model_side_reaches_its_budget():
    assert model_side() <= 2000


def test_model_side_does_not_grow():
    """Families apart: each new one adds its own lines."""
    families = make_docs.total(make_docs.ROOT / "zoo" / "families")
    grown = "raise the figure if what came in is worth it, in the same commit"
    assert model_side() - families <= 4470, grown


def test_families_keep_their_budget():
    families = re.findall(r"^\| `(\w+)` \| (\d+) \|$", make_docs.lines(), re.M)
    assert families and all(int(n) <= 60 for _, n in families)


def test_the_page_on_data_names_the_columns_that_are_recognised():
    from zoo.data.columns import NAMES
    from zoo.data.layout import SPLIT_NAMES
    from zoo.data.series import TIMES

    page = (DOCS / "data.md").read_text()
    for kind, names in NAMES.items():
        assert f"| {kind} | {', '.join(names)} |" in page
    assert f"| times | {', '.join(TIMES)}, else" in page
    for name, split in SPLIT_NAMES.items():
        assert f"`{name}`" in page or name in ("training", "testing"), (name, split)
