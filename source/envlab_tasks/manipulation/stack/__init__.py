"""Stack three cubes."""
