"""Complex numbers as pairs of real arrays, rewritten in HLO before a module is imported.

A complex array becomes two real arrays of its shape: the real parts and the imaginary parts. The
stages, in order:

* ``arrays``: real arrays with operators, from which formulas are written; ``shaping``: their shapes;
* ``functions``: functions of complex numbers; ``fourier``: Fourier transforms as matrix products;
  ``triangular``: Cholesky factors and triangular systems;
* ``operations``: the rule of each opcode;
* ``regions``: computations that are applied to scalars, whose parameters become two each;
* ``interface``: the entry, whose inputs and outputs keep the layout of complex numbers in memory;
* ``rewrite``: ``as_pairs``, which applies all of it.
"""
