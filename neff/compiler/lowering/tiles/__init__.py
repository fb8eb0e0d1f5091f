"""Buffers, tiles, and arithmetic on tiles: the base of every kernel that the compiler writes.

A kernel is written in three steps, one module for each:

``task``
    A :class:`~neff.compiler.lowering.tiles.task.Task` names the buffers that a kernel reads and writes
    (ports) and has its body, a Python function that issues the instructions. Buffers are flat tensors
    in HBM; a port adds the access pattern (offset, steps, extents).
``tiling``
    The loop nest of the views is cut into pieces of at most 128 partitions. A nest of
    (4, 96, 50) elements, whose views all walk the memory in this order, becomes four pieces::

        piece i:   partitions 0..95: second dimension      free: 50 elements of the last one

``emitter``
    Inside the body, an :class:`~neff.compiler.lowering.tiles.emitter.Emitter` computes with tiles in
    SBUF and numbers, as the elementwise lowerings in ``operations`` need it.

The other modules each solve one problem of such bodies: ``angles`` (exact reduction of large
angles), ``doubles`` and ``wide`` (64-bit numbers as pairs of words), ``operands`` (operands of the
tensor engine, contraction on partitions), ``balance`` (which engine has less work), ``interleaving``
(instructions of several tiles, so that no engine waits), ``region`` (an HLO computation on tiles),
``origins`` (the user's line of each instruction), ``tracing`` (a task becomes kernel IR) and
``pricing`` (the time of one task, for choices between tasks).

Nothing here knows a graph, a node or another folder of the lowerings.
"""
