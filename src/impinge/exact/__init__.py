"""Signs that are always right: predicates on doubles whose answer is that of rational arithmetic."""
