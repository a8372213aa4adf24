"""Exact predicates: signs on doubles that equal those of rational arithmetic.

Imports: ``backend``.
Imports no other room.
"""
