"""The settings of each library; a library without a file uses its defaults."""
