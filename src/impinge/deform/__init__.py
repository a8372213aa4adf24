"""Motion: what moves the vertices of a body."""
