"""Analyses and rewrites of kernel IR that run no instruction.

``program_order`` walks the statements of a core for all analyses that follow writes;
``liveness`` says which accesses an instruction has and which tensors may share memory;
``fresh``, ``unwritten`` and ``gaps`` follow memory that nothing wrote; ``forwarding`` and
``coalescing`` rewrite copies, with the arithmetic of ``regions``.
"""
