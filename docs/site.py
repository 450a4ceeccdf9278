"""What mkdocs.yml does not say: pages of the root, the notebook, and links out of docs/."""

from __future__ import annotations

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
}
"""Pages beside docs/, and what they are called in the site."""
ROLE = re.compile(
    r":(?:class|func|meth|mod|attr|data|exc):<code>~?(?:\w+\.)*?([\w.]+(?:\(\))?)</code>"
)
"""A reference in a docstring, of which the name is enough."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root, and the files that pages link to."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text()
        for other, called in PAGES.items():
            text = text.replace(f"]({other}", f"]({called}")
        text = re.sub(r'(\]\(|src=")docs/', r"\1", text)
        files.append(File.generated(config, page, content=text))
    _add_notebook(files, config)
    template = ROOT / "envlab/tools/template"
    for path in (*template.rglob("*.py"), *template.rglob("*.yaml")):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    files.append(File.generated(config, "LICENSE", abs_src_path=str(ROOT / "LICENSE")))
    return files


def _add_notebook(files: Files, config: Any) -> None:
    """Add the notebook as a page, and its pictures."""
    text, resources = MarkdownExporter().from_filename(str(ROOT / "docs/notebook.ipynb"))
    for name, picture in resources["outputs"].items():
        text = text.replace(f"]({name})", f"](images/notebook/{name})")
        files.append(File.generated(config, f"images/notebook/{name}", content=picture))
    files.append(File.generated(config, "notebook.md", content=text))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links out of docs/ to where :func:`on_files` put their targets."""
    markdown = markdown.replace("](../CONTRIBUTING.md", "](contributing.md")
    return markdown.replace("](../envlab/", "](envlab/")


def on_page_content(html: str, **_: Any) -> str:
    """Show references in docstrings as names."""
    return ROLE.sub(r"<code>\1</code>", html).replace("::</p>", ":</p>")
