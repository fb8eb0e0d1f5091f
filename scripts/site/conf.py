"""Sphinx's configuration; ``scripts/docs`` builds the site."""

from __future__ import annotations

from pathlib import Path

project = "nki-hlo"
author = "the nki-hlo authors"
copyright = author
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
html_theme = "furo"
html_title = "nki-hlo: the open NKI toolchain"
html_show_copyright = False
html_copy_source = False
smartquotes = False  # options begin with two hyphens
html_search_scorer = str(Path(__file__).parent / "scorer.js")
html_last_updated_fmt = None
html_theme_options = {"top_of_page_buttons": []}
myst_heading_anchors = 4
myst_enable_extensions = ["fieldlist"]
# Anchors of pages are those that GitHub makes, so that links work in both places.
suppress_warnings = ["myst.header"]
nitpicky = True
pygments_style = "default"
highlight_language = "text"
