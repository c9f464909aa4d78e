"""The documents hold together: no link leads nowhere, and the README leads to every page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!\w+://)([^)\s#]*)(?:#([^)\s]+))?\)")
NAMED = re.compile(r"docs/[\w-]+\.md")


def anchors(page: Path) -> set[str]:
    """What a link into the page may name: its headings as GitHub spells them, and anchors set by hand."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings} | set(
        re.findall(r'<a id="([^"]+)">', text)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_section_that_exist(page):
    broken = []
    for path, section in LINK.findall(page.read_text()):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (section and section not in anchors(target)):
            broken.append(f"{path}#{section}")
    assert broken == []


def test_the_readme_leads_to_every_page():
    linked = {path for path, _ in LINK.findall((ROOT / "README.md").read_text())}
    assert {f"docs/{page.name}" for page in PAGES[1:]} <= linked


def test_pages_that_code_and_messages_name_exist():
    files = [f for folder in ("src", "slurm", "systemd", "job_submit_lua") for f in (ROOT / folder).rglob("*")]
    named = {
        name
        for f in files
        if f.is_file() and f.suffix in {".py", ".lua", ".sh", ".toml", ".service", ".fragment"}
        for name in NAMED.findall(f.read_text())
    }
    assert named and [name for name in sorted(named) if not (ROOT / name).exists()] == []
