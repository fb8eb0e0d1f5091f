"""The module and its parts as views over messages: read, edited, loaded, saved.

Other modules use ``Module``, ``Computation``, ``Instruction``, ``loading`` (``load``, ``load_outline``),
``ordering``, ``overview.ModuleOutline``, ``formats``, ``renumbering.set_ids``, ``dialects`` and
``external_constants``; edits are methods of the views. Nothing is imported here: loading needs no
editing and no formats.
"""
