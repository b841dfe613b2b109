"""The verbs: one file, one function, one receipt for each thing it changed."""
