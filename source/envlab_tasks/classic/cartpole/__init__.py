"""Balance a pole on a cart that is pushed along a rail."""
