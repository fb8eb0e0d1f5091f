"""Eigenvectors and singular vectors in HLO, in place of calls of LAPACK, before importing.

``rewrite.expand_factorizations`` replaces the calls; ``jacobi`` has the rotations that both
factorizations share, ``matrices`` operations on stacks of matrices, ``loops`` while loops.
"""
