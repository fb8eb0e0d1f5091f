"""Random loop nests: ``draw.nest(seed)`` -> ``Nest`` (``nodes``) -> ``render.source`` -> the child of
``ways`` -> results of each way beside jaxlib and ``interpret`` -> ``shrink.smaller``.
"""
