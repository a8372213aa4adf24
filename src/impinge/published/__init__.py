"""The five papers as they were written, one plain module each.

May import ``mesh``, ``deform``, ``exact`` and ``backend`` alone; each module writes its own trees and searches.
Only ``benchmarks``, ``scenes`` and ``app`` import this package.
"""
