"""What the fuzz run is made of: random messages from the definitions, mutations, load, watching."""
