"""What is looked at in a browser."""
