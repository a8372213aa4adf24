"""What pushes bodies apart."""
