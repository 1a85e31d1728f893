"""What several tests need: small models and records made by hand."""
