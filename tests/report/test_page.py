"""The page: what is on it, that nothing from a file is trusted, and that damage is named."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from needlab.core import tables
from needlab.core.tables import Table
from needlab.report.figures_page import read_section, write_figures_page

from .browsing import OpenPage

EVIL = "<script>alert('1')</script>&\"x"
VOID = {"meta", "img", "br", "link", "input"}


class Checker(HTMLParser):
    """Collects tags and addresses, and sees that every tag that opens closes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def parsed(out: Path) -> Checker:
    checker = Checker()
    checker.feed(write_figures_page(out).read_text("utf-8"))
    assert checker.open == []
    return checker


def make_folder(out: Path, name: str, **changes: Any) -> Path:
    folder = tables.prepare_folder(out / name)
    claim = {
        "statement": f"claim {EVIL}",
        "source": EVIL,
        "measured": EVIL,
        "verdict": "holds",
        "preset": EVIL,
        "detail": EVIL,
    }
    meta = {
        "title": f"title of {name} {EVIL}",
        "question": EVIL,
        "documentation": EVIL,
        "paper": "yuan-mattar",
        "command": f"needreplay reproduce {name}",
        "seed": 7,
        "seconds": 75.2,
        "presets": ["printed", EVIL],
        "captions": {"figure": EVIL, "extra": "the extra picture"},
        "notes": [EVIL],
        "config": {"gamma": 0.95, EVIL: EVIL},
    }
    tables.write_table(folder / "data.csv", Table({"a": [1]}))
    for stem in ("figure", "extra"):
        tables.write_text(folder / f"{stem}.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")
    tables.write_json(folder / "claims.json", [claim])
    tables.write_json(folder / "meta.json", {**meta, **changes})
    return folder


def test_everything_is_on_the_page(tmp_path: Path) -> None:
    make_folder(tmp_path, "fig2")
    page = parsed(tmp_path)
    text = " ".join(page.words)
    for said in (
        "title of fig2",
        "needreplay reproduce fig2",
        "1 min 15 s",
        "the extra picture",
        "printed",
        '"gamma": 0.95',
    ):
        assert said in text
    assert text.count("claim <script>") == 1
    assert "fig2/data.csv" in page.addresses


def test_a_claim_about_a_need_that_was_not_accurate_is_counted_apart(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "fig5")
    (sure,) = json.loads((folder / "claims.json").read_text())
    untrue = {**sure, "doubt": "need was not accurate"}
    (folder / "claims.json").write_text(json.dumps([sure, untrue, untrue]))
    words = " ".join(" ".join(parsed(tmp_path).words).split())
    assert words.count("✓ 1 holds") == words.count("– 2 conclude nothing") == 2
    assert words.count("– holds, but need was not accurate") == 2


def test_nothing_from_a_file_becomes_markup(tmp_path: Path) -> None:
    make_folder(tmp_path, "fig2")
    folder = make_folder(tmp_path, 'a"><script>x')
    (folder / 'b"><script>.csv').write_text("a\n")
    (folder / "meta.json").write_text('{"title": <script>')
    (folder / os.fsdecode(b"\xff.csv")).write_text("a\n")
    assert "script" not in parsed(tmp_path).tags


def test_addresses_of_files_are_encoded(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "my fig")
    (folder / "a #1?.csv").write_text("a\n")
    addresses = [link.address for link in read_section(folder).files]
    assert addresses[:2] == ["my%20fig/data.csv", "my%20fig/a%20%231%3F.csv"]


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    make_folder(tmp_path, "fig2")
    page = parsed(tmp_path)
    assert "link" not in page.tags
    outside = [address for address in page.addresses if re.match(r"https?:|//", address)]
    assert outside == ["https://arxiv.org/abs/2111.14331"], "a link to read, nothing that loads"
    assert sum(address.startswith("data:image/svg+xml;base64,") for address in page.addresses) == 2


def test_sections_stand_in_the_order_asked_for(tmp_path: Path) -> None:
    for name in ("b", "a", "fig2", "fig1"):
        make_folder(tmp_path, name, title=f"[{name}]")
    text = write_figures_page(tmp_path, order=["fig1", "fig2"]).read_text("utf-8")
    places = [text.index(f"[{name}]") for name in ("fig1", "fig2", "a", "b")]
    assert places == sorted(places)


def test_a_folder_of_something_else_is_left_out(tmp_path: Path) -> None:
    make_folder(tmp_path, ".fig2.new-1")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "secret.txt").write_text("x")
    text = write_figures_page(tmp_path).read_text("utf-8")
    assert "secret" not in text
    assert "no figure in this folder yet" in text


@pytest.mark.parametrize("name", ["meta.json", "claims.json", "data.csv", "figure.svg"])
def test_a_missing_file_is_named_and_the_rest_shown(tmp_path: Path, name: str) -> None:
    folder = make_folder(tmp_path, "fig2")
    (folder / name).unlink()
    section = read_section(folder)
    assert len(section.problems) == 1
    assert "missing" in section.problems[0]
    text = " ".join(parsed(tmp_path).words)
    assert "This folder is not complete." in text
    assert "the extra picture" in text or name == "meta.json"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b"null"])
def test_a_damaged_record_is_named(tmp_path: Path, content: bytes) -> None:
    folder = make_folder(tmp_path, "fig2")
    (folder / "meta.json").write_bytes(content)
    assert read_section(folder).problems
    assert "data.csv" in " ".join(parsed(tmp_path).words)


@pytest.mark.parametrize(
    "value", [None, 3, [3], {"a": [1]}, "text", True, 1e400, -1e400, -(10**400), "\ud800"]
)
def test_any_value_anywhere_in_a_record_is_survived(tmp_path: Path, value: object) -> None:
    folder = make_folder(tmp_path, "fig2")
    meta = json.loads((folder / "meta.json").read_text())
    names = [*meta, "machine", "versions", "trials", "size"]
    for name in names:
        (folder / "meta.json").write_text(json.dumps({**meta, name: value}))
        parsed(tmp_path)
    for claims in (value, [value]):
        (folder / "claims.json").write_text(json.dumps(claims))
        parsed(tmp_path)


def test_claims_before_a_damaged_one_are_kept(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "fig2")
    claims = json.loads((folder / "claims.json").read_text())
    (folder / "claims.json").write_text(json.dumps([*claims, {"statement": "half"}]))
    section = read_section(folder)
    assert len(section.claims) == 1
    assert section.problems == ["A claim lacks its measured, preset, source, verdict."]


def test_links_to_elsewhere_are_not_followed(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "out", "fig2")
    secret = tmp_path / "secret.svg"
    secret.write_text("private")
    (folder / "figure.svg").unlink()
    (folder / "figure.svg").symlink_to(secret)
    (folder / "other.csv").symlink_to(secret)
    section = read_section(folder)
    assert [picture.title for picture in section.pictures] == ["extra"]
    assert "other.csv" not in [link.name for link in section.files]


def test_a_heavy_drawing_is_shown_as_pixels(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "fig2")
    (folder / "figure.svg").write_bytes(b" " * 1_500_001)
    (folder / "figure.png").write_bytes(b"\x89PNG")
    assert read_section(folder).pictures[0].address.startswith("data:image/png;base64,")


def claim(preset: str, verdict: str = "holds", **more: str) -> dict[str, str]:
    words = {"statement": f"of {preset}", "source": "s", "measured": "m", "preset": preset}
    return {**words, "verdict": verdict, **more}


def test_presets_are_counted_apart(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "mattar-daw", paper="mattar-daw")
    listed = [claim("published")] * 2 + [claim("published", "undecided"), claim("text")]
    (folder / "claims.json").write_text(json.dumps(listed))
    words = " ".join(" ".join(parsed(tmp_path).words).split())
    assert words.count("published ✓ 2 hold ? 1 undecided text ✓ 1 holds") == 2
    assert "3 hold" not in words


@pytest.mark.parametrize(
    ("papers", "heading", "preset", "strange"),
    [
        (
            ["mattar-daw"],
            "Mattar & Daw (2018): what the paper says",
            "the authors' code",
            "printed",
        ),
        (["yuan-mattar"], "Yuan & Mattar (2021): what the paper", "the paper's text", "published"),
        (["mattar-daw", "yuan-mattar"], "What the papers say", "of Mattar & Daw (2018)", "x1"),
        (["javascript:alert(1)"], "Figures and claims", "How to read it", "preset"),
    ],
)
def test_a_page_has_the_heading_and_presets_of_its_papers(
    tmp_path: Path, papers: list[str], heading: str, preset: str, strange: str
) -> None:
    for paper in papers:
        make_folder(tmp_path, paper.partition(":")[0], paper=paper)
    page = parsed(tmp_path)
    text = " ".join(page.words)
    head = text[: text.index("All claims")]
    assert heading in head
    assert preset in head
    assert strange not in head
    assert not any(address.startswith("javascript:") for address in page.addresses)


def test_claims_stand_under_their_picture(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "mattar-daw")
    listed = [claim("a"), claim("b", figure="extra"), claim("c", figure="no such picture")]
    (folder / "claims.json").write_text(json.dumps(listed))
    parts = [
        (picture.title, [claim.preset for claim in own])
        for picture, own in read_section(folder).parts
        if picture
    ]
    assert parts == [("figure", ["a", "c"]), ("extra", ["b"])]
    text = write_figures_page(tmp_path).read_text("utf-8")
    places = [text.index(f'id="figure-mattar-daw-{stem}"') for stem in ("figure", "extra")]
    assert places[0] < text.index("of a") < text.index("of c") < places[1] < text.index("of b")
    assert "<details><summary>7 claims" not in text


def test_many_claims_and_notes_are_folded(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "fig2", notes=["one", "two", "three"])
    (folder / "claims.json").write_text(json.dumps([claim("printed")] * 7))
    text = re.sub(r"\s+", " ", write_figures_page(tmp_path).read_text("utf-8"))
    assert "<details><summary>7 claims" in text
    assert "<details><summary>3 notes</summary>" in text


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    files = ["data.csv", "laps.csv", "behavior.png", "x" * 300, 3]
    section = read_section(make_folder(tmp_path, "mattar-daw", files=files))
    assert section.left_out == ["laps.csv", "behavior.png", "x" * 300]
    assert section.problems == []
    assert "Not in this folder: laps.csv, behavior.png" in " ".join(parsed(tmp_path).words)


def test_a_picture_is_offered_as_files(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "fig2")
    (folder / "figure.pdf").write_bytes(b"%PDF")
    figure = read_section(folder).pictures[0]
    assert [(link.name, link.address) for link in figure.files] == [
        ("SVG", "fig2/figure.svg"),
        ("PDF", "fig2/figure.pdf"),
    ]
    assert "fig2/figure.pdf" in parsed(tmp_path).addresses


def test_a_long_page_has_contents_that_stay_in_sight(browser: Any, tmp_path: Path) -> None:
    drawing = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 4 3'/>"
    for number in range(6):
        folder = make_folder(tmp_path, f"fig{number}")
        for stem in ("figure", "extra"):
            (folder / f"{stem}.svg").write_text(drawing)
    for width, shown in ((1400, ".beside"), (1000, ".above")):
        path = write_figures_page(tmp_path)
        page = OpenPage(browser, path, viewport={"width": width, "height": 800})
        assert page.page.evaluate("document.documentElement.scrollHeight") > 5 * 800
        contents = page.page.locator(f".contents{shown}")
        if shown == ".above":
            contents.locator("summary").click()
        contents.get_by_text("fig5").click()
        page.page.wait_for_timeout(200)
        assert page.page.evaluate("scrollY") > 2000
        assert 0 <= contents.bounding_box()["y"] < 5
        assert page.page.locator(".contents:visible").count() == 1
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        page.close()
    short = tmp_path / "short"
    make_folder(short, "fig1")
    assert 'class="contents' not in write_figures_page(short).read_text("utf-8")
