"""How deep, and which way out: depths and directions of what detectors found."""
