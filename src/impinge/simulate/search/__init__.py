"""Contacts of a simulation as constraints on coarse vertices: searches, approach, cloth, merging.

Imports rooms that ``simulate`` imports, and of ``simulate`` the bodies and the scheduler.
"""
