"""The commands of the command line, by family; ``impinge.cli`` joins them."""
