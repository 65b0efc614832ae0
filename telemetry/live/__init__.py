"""Live streams: frames with `{epoch, seq}` built once per topic, kept in a ring, and offered to each open socket."""
