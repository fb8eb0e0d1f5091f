"""``neuronxcc.nki.isa`` belonged to NKI beta 1: importing it says what to change."""

from hlo_tools.frameworks.old_namespace import refuse

refuse("neuronxcc.nki.isa", "isa")
