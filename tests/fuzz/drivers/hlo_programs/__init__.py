"""Random HLO modules: ``generate.module(seed)`` -> ``HloProgram`` -> ``source()`` -> the child of
``ways`` -> what jaxlib, passes, slices, text and kernels make of it -> differences.
"""
