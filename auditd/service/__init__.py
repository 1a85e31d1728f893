"""The daemon: the only floor with trio, watchfiles and structlog.

``daemon`` starts every task and owns the one nursery. ``watcher`` says where to look, ``scanner`` looks, ``settle``
waits until a file stands still, ``queue`` holds what is due, ``scheduler`` inspects one file at a time through
``cancellation``, ``recorder`` makes it durable and then known, ``alerts`` judges what is worth an alarm.
"""
