"""The HTML page of a profile: :mod:`columns` packs the events, :mod:`write` makes the page of them
and of the files beside it."""

from neff.profile.page.write import render_page

__all__ = ["render_page"]
