"""A header as JSON that stands in for its file: :mod:`auditd.header_dump.codec` is the way in, both ways."""
