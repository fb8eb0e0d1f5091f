"""Graph to graph: the same results with less work, or in types that the engines have."""
