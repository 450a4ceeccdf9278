"""Prints lists of a folder's tasks, one for each keyword; argv: folder, keywords."""

from __future__ import annotations

import sys

from envlab_isaaclab.listing import table

folder, *keywords = sys.argv[1:]
for keyword in keywords:
    print(table(folder, keyword))
