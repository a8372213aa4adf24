"""Compilation, kernel cache, threads, clock, scans, sorts, CUDA, raw arrays.

Imports: ``errors``.
Imports no room; every room imports it.
"""
