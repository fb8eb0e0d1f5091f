"""Random JAX programs: ``generate.program(seed)`` -> ``Program`` -> ``source()`` -> the child of
``ways`` -> what each way gives beside jaxlib -> differences -> ``Program.smaller``.
"""
