"""A month of the daemon's life in minutes: its own services, real files, a clock that is driven, a world that moves."""
