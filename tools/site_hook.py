"""mkdocs' hook: adds the generated pages, and lets pages link to any file of the repository.

README.md is the home page, docs/ is as it is. A link to another file of the repository leads to a
copy of it below files/: pictures and data as they are, text as a page.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from site_pages import API, ROOT, pages

ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages outside docs/, and where they are in the site."""
LANGUAGES = {".py": "python", ".toml": "toml", ".c": "c", ".h": "c", ".cff": "yaml"}
"""Text that is shown as a page."""
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
CODE = re.compile(r"^(?:````.*?^````|```.*?^```)$|`[^`\n]*`", re.M | re.S)
repo_path: dict[str, str] = {}
"""The path in the repository, or what it would be, of every page."""


class Doctests(Preprocessor):
    """Shows the examples of a docstring, from ``>>>`` to the next empty line, as code."""

    def run(self, lines: list[str]) -> list[str]:
        """Put them between fences."""
        text = "\n".join(lines) + "\n"
        example = r"^( *)>>> .*\n(?: *\S.*\n)*"
        return re.sub(example, r"\1```pycon\n\g<0>\1```\n", text, flags=re.M).split("\n")


class DoctestExtension(Extension):
    """Runs ``Doctests`` before fences are read."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register it."""
        md.preprocessors.register(Doctests(md), "doctests", 100)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the API into the navigation, and doctests into fences."""
    config.markdown_extensions.append(DoctestExtension())
    reference: list[Any] = next(
        part["Reference"] for part in config.nav or [] if "Reference" in part
    )
    reference[:0] = [{title: f"reference/{name}.md"} for name, (title, _) in API.items()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, the pages of the root, and every file that a page links to."""
    texts = {f"docs/{path}": text for path, text in pages().items()}
    for source, text in texts.items():
        files.append(File.generated(config, source.removeprefix("docs/"), content=text))
    for source, path in ROOT_PAGES.items():
        if (ROOT / source).exists():
            texts[source] = (ROOT / source).read_text(encoding="utf-8")
            files.append(File.generated(config, path, content=texts[source]))
    for file in (ROOT / "docs").rglob("*.md"):
        texts[file.relative_to(ROOT).as_posix()] = file.read_text(encoding="utf-8")
    repo_path.update({_page_of(source): source for source in texts})
    waiting, missing = list(texts.items()), []
    while waiting:
        source, text = waiting.pop()
        for link, _ in LINK.findall(CODE.sub("", text)):
            target = _target(source, link)
            place = _page_of(target)
            if target in texts or place in repo_path:
                continue
            if not (ROOT / target).exists():
                missing.append(f"{source} links to {link!r}, which does not exist")
            elif place.startswith("files/"):
                copied = _copy(target)
                # Links of a folder's page start in the folder.
                repo_path[place] = f"{target}/." if (ROOT / target).is_dir() else target
                if copied is None:
                    files.append(File.generated(config, place, abs_src_path=str(ROOT / target)))
                else:
                    files.append(File.generated(config, place, content=copied))
                    waiting.append((repo_path[place], copied))
    if missing:
        raise PluginError("\n".join(missing))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Point links at the site's copies, and begin a list after any line, as GitHub does."""
    here = page.file.src_path
    source = repo_path.get(here, f"docs/{here}")

    def moved(found: re.Match[str]) -> str:
        place = _page_of(_target(source, found[1]))
        return posixpath.relpath(place, posixpath.dirname(here) or ".") + (found[2] or "")

    outside = re.split(f"({CODE.pattern})", markdown, flags=CODE.flags)
    for place in range(0, len(outside), 2):
        outside[place] = LINK.sub(moved, outside[place])
    return re.sub(
        r"^(?![-*|#> ]|\d+\.)(\S.*)\n(?=(?:-|\d+\.) )", r"\1\n\n", "".join(outside), flags=re.M
    )


def _target(source: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _page_of(target: str) -> str:
    """Where a file of the repository is in the site."""
    if target in ROOT_PAGES:
        return ROOT_PAGES[target]
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    path = ROOT / target
    if path.is_dir():
        return f"files/{target}/index.md"
    if path.suffix in LANGUAGES or path.name == "Makefile":
        return f"files/{target}.md"
    return f"files/{target}"


def _copy(target: str) -> str | None:
    """A file or folder outside docs/ as a page; None: copied as it is."""
    path = ROOT / target
    if path.is_dir():
        below = sorted(path.iterdir(), key=lambda each: (each.is_dir(), each.name))
        names = [each.name for each in below if each.name != "__pycache__" and each.suffix != ".so"]
        linked = [f"- [{n}]({n})" if (path / n).is_file() else f"- {n}/" for n in names]
        text = "\n".join(linked)
    elif path.suffix == ".md":
        text = path.read_text(encoding="utf-8")
    elif _page_of(target).endswith(".md"):
        text = f"````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}````"
    else:
        return None
    head = "" if path.suffix == ".md" else f"# {target}\n\n"
    return f"---\nsearch:\n  exclude: true\n---\n\n{head}{text}\n"
