"""Follow a commanded velocity."""
