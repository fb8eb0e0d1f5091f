"""From an HLO module to a graph."""
