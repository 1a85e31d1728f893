"""The daemon's eyes: each root is kept in sight, scanned, and scanned again; what is due is offered to the scheduler."""
