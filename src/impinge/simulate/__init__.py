"""Simulation of soft bodies: contact search, response, time steps, state files.

Imports: ``queries`` and rooms to its left.
Imports neither ``scenes`` nor any room to its right.
"""
