"""Collision detection between deformable bodies."""
