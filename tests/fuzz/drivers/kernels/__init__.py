"""Random kernels, run in every way there is.

``generate.kernel(seed)`` -> ``GeneratedKernel`` -> ``source()`` -> the ways of ``ways.WAYS`` ->
results -> ``compare`` -> differences -> ``shrink``.
"""
