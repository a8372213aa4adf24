"""What all detectors share: results, pair queries, the exact narrow phase, brute force.

Imports: ``io``, ``mesh``, ``deform``.
Imports no other folder of ``detect``.
"""
