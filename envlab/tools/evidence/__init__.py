"""``envlab evidence``: experiments over seeds, their records, and the page made from them."""
