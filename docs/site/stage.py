#!/usr/bin/env python3
"""Lays out the pages of the documentation site: those of docs/, the ones at the top of the tree, man pages, the
Python reference, and the sources that pages point to.

    docs/site/stage.py FOLDER WEIR      WEIR is the command; the Python package is imported
    docs/site/stage.py FOLDER           only the pages of the tree, which says whether their links lead somewhere

A link to a file that is not there is an error.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import python_reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP = {"README.md": "index.md", "README.zh-CN.md": "index.zh.md", "CHANGELOG.md": "changelog.md",
       "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
LANGUAGE = {".c": "c", ".h": "c", ".py": "python", ".cu": "cpp", ".sh": "sh", ".json": "json"}
# A line's end between two Chinese characters would be shown as a space.
CHINESE_BREAK = re.compile(r"(?<=[\u3001-\u9fff\uff01-\uff5e])\n[ \t]*(?=[\u3001-\u9fff\uff01-\uff5e])")
LARGEST_SOURCE = 200_000
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")


class Stage:
    def __init__(self, folder):
        self.folder = folder
        self.pages = dict(TOP)  # path in the tree -> path in the site
        for path in sorted((ROOT / "docs").rglob("*")):
            inside = path.relative_to(ROOT / "docs")
            if path.is_file() and inside.parts[0] != "site":
                self.pages[f"docs/{inside}"] = str(inside).replace(".zh-CN.md", ".zh.md")
        self.sources = {}
        self.problems = []

    def source_page(self, path):
        """The page that shows a file of the tree; None for what no page can show."""
        if path.is_dir() or path.stat().st_size > LARGEST_SOURCE:
            return None
        name = str(path.relative_to(ROOT))
        # No dot before the end: "x.py.md" would be the page x in the language py.
        self.sources[name] = f"source/{name.replace('.', '-')}.md"
        return self.sources[name]

    def link(self, origin, page):
        def replace(match):
            image, text, target = match.groups()
            if re.match(r"[a-z]+:|#", target):
                return match[0]
            file, _, anchor = target.partition("#")
            path = (ROOT / origin).parent / file
            path = pathlib.Path(os.path.normpath(path))
            if not path.exists() or not path.is_relative_to(ROOT):
                self.problems.append(f"{origin}: {target} is not there")
                return text
            name = str(path.relative_to(ROOT))
            to = self.pages.get(name) or self.source_page(path)
            if not to:
                return text
            to = os.path.relpath(to.replace(".zh.md", ".md") if page.endswith(".zh.md") else to,
                                 os.path.dirname(page) or ".")
            if name.endswith(".zh-CN.md") and not page.endswith(".zh.md"):
                return text  # the other language: the selector leads there
            return f"{image}[{text}]({to}{'#' + anchor if anchor else ''})"

        return replace

    def links(self, text, origin, page):
        """The text with links as they are in the site; code is left alone."""
        def prose(part):
            part = LINK.sub(self.link(origin, page), part)
            return re.sub(CHINESE_BREAK, "", part) if page.endswith(".zh.md") else part

        parts = re.split(r"(^ {0,3}```.*?^ {0,3}```)", text, flags=re.S | re.M)
        return "".join(p if i % 2 else prose(p) for i, p in enumerate(parts))

    def write(self, page, text):
        path = self.folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def tree(self):
        for origin, page in self.pages.items():
            path = ROOT / origin
            if path.suffix != ".md":
                (self.folder / page).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, self.folder / page)
                continue
            text = path.read_text(encoding="utf-8")
            text = re.sub(r"^(English · .*|.* · 中文)\n\n?", "", text, count=1, flags=re.M)
            if page.startswith("index."):
                text = "---\nhide:\n  - navigation\n---\n" + text
            self.write(page, self.links(text, origin, page))

    def show_sources(self):
        for name, page in sorted(self.sources.items()):
            text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
            self.write(page, f"# {name}\n\n````{LANGUAGE.get(pathlib.Path(name).suffix, 'text')}\n{text}\n````\n")

    def man(self, weir):
        def shown(roff):
            run = subprocess.run(["groff", "-man", "-Tutf8", "-P-cbou"], input=roff, capture_output=True, text=True,
                                 check=True)
            return "\n".join(line.rstrip() for line in run.stdout.strip("\n").split("\n"))

        page = subprocess.run([ROOT / "scripts/docs/make-man", weir], capture_output=True, text=True, check=True).stdout
        self.write("man/weir.1.md", f"# weir(1)\n\n`man weir` shows this page where weir is installed.\n\n"
                                    f"````text\n{shown(page)}\n````\n")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([ROOT / "scripts/api-reference", "--man", folder], check=True, capture_output=True)
            names = {}
            for path in sorted(pathlib.Path(folder).glob("*.3")):
                text = path.read_text(encoding="utf-8")
                if text.startswith(".so "):
                    names.setdefault(pathlib.Path(text.split()[1]).stem, []).append(path.stem)
                else:
                    names.setdefault(path.stem, []).insert(0, path.stem)
            index = ["# Functions, section 3", "",
                     "`man weir_add` and the like, made from the headers; [C API](../api.md) has the same on one page.", ""]
            for first, all_names in sorted(names.items()):
                text = pathlib.Path(folder, f"{first}.3").read_text(encoding="utf-8")
                self.write(f"man/{first}.3.md", f"# {first}(3)\n\n````text\n{shown(text)}\n````\n")
                index.append(f"- [{', '.join(sorted(set(all_names)))}]({first}.3.md)")
            self.write("man/section3.md", "\n".join(index) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    stage = Stage(folder)
    stage.tree()
    if len(sys.argv) > 2:
        stage.show_sources()
        stage.man(sys.argv[2])
        stage.write("python-api.md", python_reference.page())
    shutil.copyfile(ROOT / "docs/site/extra.css", folder / "extra.css")
    for problem in stage.problems:
        print(f"make-docs: {problem}", file=sys.stderr)
    return 1 if stage.problems else 0


if __name__ == "__main__":
    sys.exit(main())
