"""The reasons why a program is slow, and the time that each costs: rules with codes ``PERF-…``.

A rule looks for a fault and takes it out of the program's instructions: it merges iterations, gives
each value a tile of its own, leaves transfers out, and so on. What comes out is placed in memory and
scheduled as the compiler does it, and simulated again; the difference is the gain. Nothing is
computed by a formula, and nothing of it has to compute the right values.

:mod:`order` makes one list of a core's instructions, :mod:`rebuild` a program of it again.
:mod:`versions`, :mod:`merge`, :mod:`reorder` and :mod:`without` change lists; :mod:`buffers`,
:mod:`tables`, :mod:`tiles`, :mod:`tensor`, :mod:`precision`, :mod:`hbm` and :mod:`engines` are the
rules, :mod:`advise` has their table.
"""

from neff.profile.advice.advise import MIN_GAIN_SHARE, RULES, advice_of, advice_rows
from neff.profile.advice.rule import Advice, Rule

__all__ = ["MIN_GAIN_SHARE", "RULES", "Advice", "Rule", "advice_of", "advice_rows"]
