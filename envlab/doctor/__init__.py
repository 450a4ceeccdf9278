"""``envlab doctor``: the abilities and problems of a machine, or of a launch's ranks."""
