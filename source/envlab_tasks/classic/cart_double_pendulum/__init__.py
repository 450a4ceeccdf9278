"""Balance two poles, one on top of the other, on a cart: two agents that must act together."""
