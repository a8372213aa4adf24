"""Pictures of bodies and results."""
