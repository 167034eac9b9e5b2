"""Segments: stretches of the change stream with their digests, cut alike by every writer of the same stream.

`cut` says where segments end, `event_text` what their digests are of, `files` writes and reads them, `writer` cuts what is staged, and
`process` does so beside a pipeline's driver.
"""
