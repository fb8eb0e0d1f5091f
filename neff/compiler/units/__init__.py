"""From a graph to kernels in order: what is fused to a unit, and where each value lives."""
