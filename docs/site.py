"""What mkdocs.yml does not say: pages of the root, the notebook, and links out of docs/."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "tests/README.md": "tests.md",
    "tests/libraries.md": "corrections.md",
}
"""Pages beside docs/, and what they are called in the site."""
LAST = re.compile(r"api|changelog|tests|corrections|pages|evidence|terms")
"""Pages that hold every word, which the search puts after those that explain it."""
LINK = re.compile(r'(\]\(|(?:src|href)=")([^)"#\s]+)')
ROLE = re.compile(
    r":(?:class|func|meth|mod|attr|data|exc):<code>~?(?:\w+\.)*?([\w.]+(?:\(\))?)</code>"
)
"""A reference in a docstring, of which the name is enough."""
BLOCK = re.compile(r"<pre>.*?</pre>", re.DOTALL)
HYPHENATED = re.compile(r'(?<![\w"-])(--\w[\w-]*|[A-Z]\w*(?:-\w+)+)')
"""A flag or a task's id, which a browser would break at its hyphens."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root, and the files outside docs/ that pages link to."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    _add_notebook(files, config)
    sources = [ROOT / source for source in PAGES] + sorted((ROOT / "docs").rglob("*.md"))
    linked = {path for source in sources for path in _linked(source)}
    for name in sorted(linked - set(PAGES)):
        if not name.startswith("docs/"):
            files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def _linked(source: Path) -> list[str]:
    """Return the files of the repository that a page links to, by their paths in it."""
    links = [_path(source, link) for _, link in LINK.findall(source.read_text())]
    return [path for path in links if path]


def _path(source: Path, link: str) -> str | None:
    """Return the path in the repository of what a page links to; None if it is no file there."""
    target = (source.parent / link).resolve()
    return str(target.relative_to(ROOT)) if target.is_file() and ROOT in target.parents else None


def _add_notebook(files: Files, config: Any) -> None:
    """Add the notebook as a page, and its pictures."""
    text, resources = MarkdownExporter().from_filename(str(ROOT / "docs/notebook.ipynb"))
    for name, picture in resources["outputs"].items():
        text = text.replace(f"]({name})", f"](images/notebook/{name})")
        files.append(File.generated(config, f"images/notebook/{name}", content=picture))
    files.append(File.generated(config, "notebook.md", content=text))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to where the site has their targets: docs/ is its root, also for other pages."""
    uri = page.file.src_uri
    if LAST.match(uri):
        page.meta["search"] = {"boost": 0.2}
    source = {called: ROOT / name for name, called in PAGES.items()}.get(uri, ROOT / "docs" / uri)

    def lead(link: re.Match[str]) -> str:
        path = _path(source, link[2])
        if path is None:
            return link[0]
        target = PAGES.get(path, path.removeprefix("docs/"))
        return link[1] + posixpath.relpath(target, posixpath.dirname(uri))

    return LINK.sub(lead, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Show references in docstrings as names, and keep flags and ids in commands whole."""
    html = BLOCK.sub(lambda block: HYPHENATED.sub(r'<span class="whole">\1</span>', block[0]), html)
    return ROLE.sub(r"<code>\1</code>", html).replace("::</p>", ":</p>")
