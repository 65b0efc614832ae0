"""Pure builders of Plotly figures, and the finder that serves Plotly's own bundle from the installed package."""
