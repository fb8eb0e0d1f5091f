"""``neuronxcc.nki.profiler`` of NKI beta 1 is not here: importing it says so."""

from hlo_tools.frameworks.old_namespace import refuse

refuse("neuronxcc.nki.profiler", "profiler")
