"""Compilation, kernel cache, threads, clock, scans, sorts, vector code, CUDA, raw arrays.

Imports: ``errors``.
Imports no room; every room imports it. Only ``numba_0_68`` uses private parts of Numba.
"""
