"""The lowest layer: errors, element types, targets, memories, source locations, files.

Every package may import it. It imports NumPy and ml_dtypes only."""
