"""Implicit integration: incremental energies of elements, block matrices, preconditioned conjugate gradients, Newton.

Imports: other modules of ``deform``, and what they may import.
"""
