"""Bodies: triangle and tetrahedral meshes whose vertices move."""
