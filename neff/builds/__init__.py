"""From files to NEFFs: what there is to build, one build, and many at once.

``sources_of`` finds the modules and kernels that a path names, ``build_one`` makes the NEFF of one,
``build_many`` of any number with an executor of ``concurrent.futures``, skipping what is unchanged; ``make`` fetches from a store
or builds and keeps; ``explain_one`` says what the compiler does with one, and why; ``replaced_in``
what registered kernels take the place of.
"""

from __future__ import annotations

from neff.builds.flags import flags_of
from neff.builds.many import Progress, build_many
from neff.builds.one import Built, build_one, explain_one, replaced_in
from neff.builds.sources import Source, output_names, sources_of
from neff.builds.stored import Made, action_of, make
from neff.builds.works import Outcome, Work

__all__ = [
    "Built",
    "Made",
    "Outcome",
    "Progress",
    "Source",
    "Work",
    "action_of",
    "build_many",
    "build_one",
    "explain_one",
    "flags_of",
    "make",
    "output_names",
    "replaced_in",
    "sources_of",
]
