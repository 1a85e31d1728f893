"""A header as JSON that stands in for its file: :mod:`auditd.evidence.dump.codec` is the way in, both ways."""
