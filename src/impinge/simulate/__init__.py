"""Bodies in motion: detect, respond, step, steer."""
