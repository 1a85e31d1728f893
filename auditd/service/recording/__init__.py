"""What is known becomes durable, then public: store, log line, events, and the life of alerts and sets."""
