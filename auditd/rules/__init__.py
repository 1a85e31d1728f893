"""What makes findings of facts, and the table of all findings. Pure."""
