"""What a sceptic runs: the attack on a backup, its controls, and the search for residue. CUSTODY.md §7."""
