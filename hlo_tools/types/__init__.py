"""Values inside messages: element types, shapes, literals, opcodes, ids.

Other modules use the names in each file's ``__all__``. Nothing is imported here, because loading a
module needs half of the files.
"""
