"""The service under a booted systemd."""
