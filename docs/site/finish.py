#!/usr/bin/env python3
"""Mends what mkdocs leaves in the site that cannot be used below a version's folder, and follows every link of every page.

    docs/site/finish.py SITE

A link that leads nowhere is an error.
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse

# The language selector of the first pages has links from the top of the host.
FIRST = {"index.html": {"/": "./", "/zh/": "./zh/"}, "zh/index.html": {"/": "../", "/zh/": "./"}}


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links = set()

    def handle_starttag(self, tag, attributes):
        self.links.update(value for name, value in attributes
                          if value and (name == "src" or name == "href" and tag in ("a", "link", "script")))


def leads_somewhere(site, page, link):
    url = urllib.parse.urlsplit(link)
    if url.scheme or url.netloc or not url.path:
        return True
    if url.path.startswith("/"):
        return False
    target = (page.parent / urllib.parse.unquote(url.path)).resolve()
    if not target.is_relative_to(site):
        return False
    return (target / "index.html").is_file() if target.is_dir() else target.is_file()


def main():
    site = pathlib.Path(sys.argv[1]).resolve()
    for name in ("404.html",  # a host shows it for any address, and its links start at the top of the host
                 "sitemap.xml.gz"):  # has the time of the build in it
        (site / name).unlink(missing_ok=True)
    for name, links in FIRST.items():
        page = site / name
        page.write_text(re.sub(r'href="([^"]*)"(?= hreflang=)', lambda m: f'href="{links.get(m[1], m[1])}"',
                               page.read_text(encoding="utf-8")), encoding="utf-8")
    pages, wrong = 0, 0
    for page in sorted(site.rglob("*.html")):
        parser = Links()
        parser.feed(page.read_text(encoding="utf-8"))
        pages += 1
        for link in sorted(parser.links):
            if not leads_somewhere(site, page, link):
                print(f"make-docs: {page.relative_to(site)}: {link} leads nowhere", file=sys.stderr)
                wrong += 1
    print(f"make-docs: the links of {pages} pages, {wrong} of them lead nowhere")
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
