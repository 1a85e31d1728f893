"""What is read next and by whom: one inspection reads at a time, and every read can be stopped, held or let go of."""
