"""From an audit and two catalogues to a plan: columns, kinds, partitions, chunks, watermark, slice and expected cost."""
