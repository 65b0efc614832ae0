"""Programs that load and measure the fabric from outside, as an engine or a browser would."""
