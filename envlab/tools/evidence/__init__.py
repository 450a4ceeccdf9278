"""``envlab evidence``: experiments over seeds, their records, and the page that is made of them."""
