"""The graph that every stage works on: nodes, element types, views of buffers, nested blocks."""
