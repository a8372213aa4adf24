"""Files to arrays and back."""
