"""What each library trains with; a library without a file uses its defaults."""
