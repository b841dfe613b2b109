"""Who holds the epoch key: one small port, and a module for each kind of holder. CUSTODY.md §5."""
