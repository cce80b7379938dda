"""The site builds strictly, says what the data says, and loads nothing from the network."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import needreplay
from needlab.core.tables import write_json
from needlab.report.claims import DOUBTS, Claim

ROOT = Path(__file__).parents[1]
pytest.importorskip("mkdocs")
sys.path.append(str(ROOT / "tools"))

import site_pages  # noqa: E402


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One build for all tests. Broken links and names without documentation fail the build."""
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Loads(HTMLParser):
    """The addresses that a browser loads with a page; links are not loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href" if tag == "link" else "src")
        if address and tag in ("link", "script", "img", "iframe", "source", "video"):
            self.found.append(address)


def test_no_page_loads_from_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert loads.found
        outside = [address for address in loads.found if re.match(r"(https?:)?//", address)]
        assert not outside, f"{page.relative_to(site)}: {outside}"


@pytest.fixture(scope="module")
def anchors(site: Path) -> set[str]:
    """Every name of the API reference."""
    pages = [page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html")]
    return {name for page in pages for name in re.findall(r'id="([\w.]+)"', page)}


def test_every_public_name_is_in_the_reference(anchors: set[str]) -> None:
    names = {f"needreplay.{name}" for name in needreplay.__all__ if name[0] != "_"}
    assert names <= anchors


def test_every_name_that_the_docs_import_is_in_the_reference(anchors: set[str]) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    programs = [*(ROOT / "examples").glob("*.py"), *(ROOT / "docs/tutorials").glob("*.py")]
    code = [path.read_text(encoding="utf-8") for path in programs]
    for page in pages:
        code += re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    last = {name.rpartition(".")[2] for name in anchors if name.startswith("needreplay.")}
    imports = [
        (node.module, alias.name)
        for each in code
        for node in ast.walk(ast.parse(each))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("needreplay")
        for alias in node.names
    ]
    assert len(imports) > 40
    # A name is on the page of the module that has it in the reference, not of each that exports it.
    assert sorted({f"{module}.{name}" for module, name in imports if name not in last}) == []
    for name in ("needlab.record", "needlab.mean_interval"):
        assert name in anchors


def test_the_results_page_has_every_claim(site: Path) -> None:
    page = (site / "results.html").read_text(encoding="utf-8")
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page)).replace("&#39;", "'")
    found = 0
    for file in (ROOT / "results").glob("*/claims.json"):
        for claim in json.loads(file.read_text(encoding="utf-8")):
            measured = claim["measured"].replace("<", "&lt;").replace(">", "&gt;")
            assert " ".join(measured.split()) in words, (file, claim)
            found += 1
    assert found > 30


def test_a_verdict_on_a_need_that_was_not_accurate_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results/fig5"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "results/fig5/meta.json", folder)
    doubts = {"A is better": "", "B is better": DOUBTS["does not hold"]}
    claims = [Claim(s, "paper", "+1", "holds", "corrected", doubt=d) for s, d in doubts.items()]
    write_json(folder / "claims.json", claims)
    monkeypatch.setattr(site_pages, "ROOT", tmp_path)
    glance, _, rest = site_pages.results().partition("## fig5")
    assert "| A is better | paper | holds |" in glance
    assert "| B is better | paper | holds, but need was not accurate |" in glance
    assert rest.count("**holds**") == rest.count("**holds, but need was not accurate**") == 1


def test_the_reference_has_every_command(site: Path) -> None:
    page = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    for file in (ROOT / "src/needlab/cli").glob("[a-z]*.py"):
        if file.stem != "command" and "@dataclass" in file.read_text(encoding="utf-8"):
            assert f'id="needreplay-{file.stem}"' in page


def test_the_site_opens_and_searches_without_a_server_or_a_network(
    browser: Any, site: Path
) -> None:
    asked: list[str] = []
    errors: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in ("reference/replay.html", "results.html", "index.html"):
        page.goto((site / name).as_uri())
    page.focus(".md-search__input")
    page.locator(".md-search-result__meta", has_text="Type to start").wait_for(timeout=60_000)
    page.locator(".md-search__input").press_sequentially("update_priorities")
    result = page.locator(".md-search-result__item").first
    result.wait_for(timeout=60_000)
    assert "update_priorities" in result.inner_text()
    # The words of a neuroscientist lead to their page.
    for words in ("hippocampus", "place cell", "sharp-wave ripple"):
        page.fill(".md-search__input", "")
        page.locator(".md-search__input").press_sequentially(words)
        found = page.locator(".md-search-result__item").filter(has_text="For neuroscientists")
        found.first.wait_for(timeout=60_000)
    page.close()
    assert len(asked) > 10
    assert all(address.startswith(("file:", "data:", "about:")) for address in asked), asked
    assert not errors
