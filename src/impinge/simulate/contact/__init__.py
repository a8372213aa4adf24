"""Contact that holds: rows from near features and impacts, motions committed once they are verified.

Public names of the package are in ``impinge`` itself; other rooms import from the modules.
"""
