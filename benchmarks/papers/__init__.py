"""Experiments of published papers, repeated: the same protocol, bodies that stand in for lost ones, claims judged.

One module per group of figures, named after the paper's number and what is measured; each has ``run(quick=...)``, which
returns an ``Experiment``.
"""
